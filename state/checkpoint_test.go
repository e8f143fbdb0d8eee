package state_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/statetest"
)

func openPebble(path string) (state.Database, error) {
	return pebblestore.Open(path, pebblestore.Options{FlushBytes: 8 << 10})
}

// owner opens a state directory that can take and import checkpoints.
func owner(t *testing.T, application string) *state.Directory {
	t.Helper()
	d, err := state.OpenDirectory(filepath.Join(t.TempDir(), "state"),
		state.DirectoryOptions{Application: application, Open: openPebble})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// filled opens the database of a task and applies rounds of a history.
func filled(t *testing.T, d *state.Directory, h *statetest.History, rounds int) state.Database {
	t.Helper()
	path, err := d.TaskPath("ledger", 3)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openPebble(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(db.Declare(h.Stores()...), h.Apply(db, 0, rounds)); err != nil {
		t.Fatal(err)
	}
	return db
}

// checkpointed takes a checkpoint of a task at round 12 of a history of 24.
func checkpointed(t *testing.T) (h *statetest.History, checkpoint string) {
	t.Helper()
	h = statetest.NewHistory(rand.New(rand.NewPCG(1, 9)), 24, 40, 200)
	d := owner(t, "payments")
	checkpoint = filepath.Join(t.TempDir(), "checkpoint")
	if err := d.CheckpointTask("ledger", 3, filled(t, d, h, 12), checkpoint); err != nil {
		t.Fatal(err)
	}
	return h, checkpoint
}

// expectRound opens a database and expects a round of the history.
func expectRound(t *testing.T, path string, h *statetest.History, want int) {
	t.Helper()
	db, err := openPebble(path)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := h.Verify(db); err != nil || n != want {
		t.Errorf("%s is at round %d, want %d: %v", path, n, want, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestCheckpointTask: a checkpoint becomes the database of the task in another instance, goes on
// there, and stays what it was, as does the database that it was taken of.
func TestCheckpointTask(t *testing.T) {
	h := statetest.NewHistory(rand.New(rand.NewPCG(1, 9)), 24, 40, 200)
	from, to := owner(t, "payments"), owner(t, "payments")
	db := filled(t, from, h, 12)
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	if err := from.CheckpointTask("ledger", 3, db, checkpoint); err != nil {
		t.Fatal(err)
	}
	if err := h.Apply(db, 12, 24); err != nil { // nobody else sees it
		t.Fatal(err)
	}
	if err := from.CheckpointTask("ledger", 3, db, checkpoint); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second checkpoint in its place: %v", err)
	}
	other := t.TempDir()
	if err := from.CheckpointTask("ledger", 3, db, filepath.Join(other, "second")+string(filepath.Separator)); err != nil {
		t.Errorf("a name that ends with a separator: %v", err)
	}
	expectNames(t, other, "second")
	expectNames(t, filepath.Dir(checkpoint), "checkpoint")
	expectNames(t, checkpoint, "checkpoint.json", "database")

	if err := to.ImportTask("ledger", 3, checkpoint); err != nil {
		t.Fatal(err)
	}
	path, err := to.TaskPath("ledger", 3)
	if err != nil {
		t.Fatal(err)
	}
	expectNames(t, filepath.Join(to.Path(), "trash"))
	if tasks, err := to.Tasks(); err != nil || !slices.Equal(tasks, []state.TaskDirectory{{Subtopology: "ledger", Partition: 3}}) {
		t.Errorf("the tasks are %v (%v)", tasks, err)
	}
	if err := to.ImportTask("ledger", 3, checkpoint); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second import: %v", err)
	}
	imported, err := openPebble(path)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := h.Verify(imported); err != nil || n != 12 {
		t.Errorf("imported at round %d: %v", n, err)
	}
	// The tail, with flushes and compactions that remove shared files.
	for i := 12; i < 24; i++ {
		if err := errors.Join(h.Apply(imported, i, i+1), imported.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := imported.Close(); err != nil {
		t.Fatal(err)
	}
	expectRound(t, path, h, 24)
	if n, err := h.Verify(db); err != nil || n != 24 {
		t.Errorf("the first database is at round %d: %v", n, err)
	}
	expectRound(t, filepath.Join(checkpoint, "database"), h, 12)
	if err := to.RemoveTask("ledger", 3); err != nil {
		t.Fatal(err)
	}
	if err := to.ImportTask("ledger", 3, checkpoint); err != nil {
		t.Errorf("imported again: %v", err)
	}
	expectRound(t, path, h, 12)
}

// TestCheckpointSharesTables: the tables of a checkpoint and of its import are no copies.
func TestCheckpointSharesTables(t *testing.T) {
	_, checkpoint := checkpointed(t)
	to := owner(t, "payments")
	if err := to.ImportTask("ledger", 3, checkpoint); err != nil {
		t.Fatal(err)
	}
	path, err := to.TaskPath("ledger", 3)
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		ours, err := os.Stat(filepath.Join(path, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.Stat(filepath.Join(checkpoint, "database", e.Name()))
		if err != nil || !os.SameFile(ours, theirs) {
			continue
		}
		if shared++; !strings.HasSuffix(e.Name(), ".sst") {
			t.Errorf("%s changes, and is shared", e.Name())
		}
	}
	if shared == 0 {
		t.Error("no table is shared")
	}
}

func expectNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s has %q, want %q", dir, names, want)
	}
}

// TestImportRefuses: whatever is not a checkpoint of this task, whole and of a known format, is
// refused with one line, and nothing is left of the attempt.
func TestImportRefuses(t *testing.T) {
	h, checkpoint := checkpointed(t)
	edit := func(t *testing.T, dir string, change func(m map[string]any)) {
		t.Helper()
		file := filepath.Join(dir, "checkpoint.json")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		if data, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := func(field string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, dir, func(m map[string]any) { m[field] = value }) }
	}
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(pattern string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			for _, name := range names {
				if err := os.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(t *testing.T, dir string)
		want   error
	}{
		"no checkpoint.json":            {remove("checkpoint.json"), state.ErrForeign},
		"no database":                   {remove("database"), state.ErrCorrupt},
		"an empty database":             {remove("database/*"), state.ErrCorrupt},
		"another application":           {set("application", "billing"), state.ErrForeign},
		"another subtopology":           {set("subtopology", "other"), state.ErrForeign},
		"another partition":             {set("partition", 4), state.ErrForeign},
		"a newer format":                {set("format", 2), state.ErrFormat},
		"no format":                     {set("format", nil), state.ErrCorrupt},
		"a field that nobody knows":     {set("colour", "red"), state.ErrCorrupt},
		"another round":                 {set("round", "1/2/00000003"), state.ErrCorrupt},
		"other offsets":                 {set("inputs", []any{}), state.ErrCorrupt},
		"other stores":                  {set("stores", []any{map[string]any{"name": "other", "applied": 0}}), state.ErrCorrupt},
		"no partition":                  {set("partition", nil), state.ErrCorrupt},
		"half of checkpoint.json":       {write("checkpoint.json", `{"format": 1, "appli`), state.ErrCorrupt},
		"a missing table":               {remove("database/*.sst"), state.ErrCorrupt},
		"a missing MANIFEST":            {remove("database/MANIFEST-*"), state.ErrCorrupt},
		"an empty MANIFEST":             {func(t *testing.T, dir string) { truncate(t, dir, "database/MANIFEST-*") }, state.ErrCorrupt},
		"a directory among the files":   {func(t *testing.T, dir string) { mkdir(t, dir, "database/more") }, state.ErrForeign},
		"a link to somewhere else":      {func(t *testing.T, dir string) { symlink(t, dir, "database/000099.sst") }, state.ErrForeign},
		"a newer database":              {func(t *testing.T, dir string) { newer(t, dir) }, state.ErrFormat},
		"a database of another history": {func(t *testing.T, dir string) { otherHistory(t, dir, h) }, state.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			changed := filepath.Join(t.TempDir(), "changed")
			if err := os.CopyFS(changed, os.DirFS(checkpoint)); err != nil {
				t.Fatal(err)
			}
			tc.change(t, changed)
			to := owner(t, "payments")
			err := to.ImportTask("ledger", 3, changed)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), changed)) {
				t.Errorf("not one line that names the checkpoint: %v", err)
			}
			if tasks, err := to.Tasks(); err != nil || len(tasks) > 0 {
				t.Errorf("there are tasks: %v (%v)", tasks, err)
			}
			if entries, err := os.ReadDir(filepath.Join(to.Path(), "trash")); err == nil && len(entries) > 0 {
				t.Errorf("the trash has %v", entries)
			}
			if err := to.ImportTask("ledger", 3, checkpoint); err != nil {
				t.Errorf("the right one afterwards: %v", err)
			}
		})
	}
}

func truncate(t *testing.T, dir, pattern string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func mkdir(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Symlink(filepath.Join(dir, "checkpoint.json"), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// newer makes the database one of a format of Pebble that does not exist yet.
func newer(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "database", "marker.format-version.*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if err := os.Rename(name, filepath.Join(filepath.Dir(name), "marker.format-version.000099.999")); err != nil {
			t.Fatal(err)
		}
	}
}

// otherHistory replaces the database by one at the next round.
func otherHistory(t *testing.T, dir string, h *statetest.History) {
	t.Helper()
	db, err := openPebble(filepath.Join(dir, "database"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Apply(db, 12, 13), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestImportThatWasKilled: what an import has not finished is in the trash, which the next life
// empties.
func TestImportThatWasKilled(t *testing.T) {
	h, checkpoint := checkpointed(t)
	path := filepath.Join(t.TempDir(), "state")
	options := state.DirectoryOptions{Application: "payments"}
	kill := errors.New("killed")
	options.Open = func(staged string) (state.Database, error) {
		// What is there now stays there when the process is killed.
		if err := os.CopyFS(filepath.Join(filepath.Dir(staged), "0123456789abcdef"), os.DirFS(staged)); err != nil {
			return nil, err
		}
		return nil, kill
	}
	d, err := state.OpenDirectory(path, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.ImportTask("ledger", 3, checkpoint); !errors.Is(err, kill) {
		t.Fatal(err)
	}
	if tasks, err := d.Tasks(); err != nil || len(tasks) > 0 {
		t.Errorf("there are tasks: %v (%v)", tasks, err)
	}
	expectNames(t, filepath.Join(path, "trash"), "0123456789abcdef")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	options.Open = openPebble
	if d, err = state.OpenDirectory(path, options); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	expectNames(t, filepath.Join(path, "trash"))
	if err := d.ImportTask("ledger", 3, checkpoint); err != nil {
		t.Fatal(err)
	}
	task, err := d.TaskPath("ledger", 3)
	if err != nil {
		t.Fatal(err)
	}
	expectRound(t, task, h, 12)
}

// TestCheckpointTaskRefuses: a checkpoint that cannot be taken leaves nothing.
func TestCheckpointTaskRefuses(t *testing.T) {
	d := owner(t, "payments")
	dir := t.TempDir()
	check := func(what string, err, want error, words ...string) {
		t.Helper()
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		for _, w := range words {
			if err != nil && !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not say %q", what, err, w)
			}
		}
		expectNames(t, dir)
	}
	to := filepath.Join(dir, "checkpoint")
	check("a database without files", d.CheckpointTask("ledger", 3, memstore.New(), to), errors.ErrUnsupported, "in memory", "no files")
	check("a name with a separator", d.CheckpointTask("../ledger", 3, memstore.New(), to), nil, "subtopology")
	check("below nothing", d.CheckpointTask("ledger", 3, memstore.New(), filepath.Join(dir, "absent", "c")), fs.ErrNotExist)
	check("import of nothing", d.ImportTask("ledger", 3, to), fs.ErrNotExist)
	check("import of an empty directory", d.ImportTask("ledger", 3, dir), state.ErrForeign, "no checkpoint.json")
	h := statetest.NewHistory(rand.New(rand.NewPCG(1, 9)), 2, 4, 20)
	db := filled(t, d, h, 2)
	broken, err := state.OpenDirectory(filepath.Join(t.TempDir(), "s"), state.DirectoryOptions{
		Application: "payments", Open: func(string) (state.Database, error) { return nil, fmt.Errorf("x: %w", state.ErrCorrupt) },
	})
	if err != nil {
		t.Fatal(err)
	}
	check("a copy that cannot be opened", broken.CheckpointTask("ledger", 3, db, to), state.ErrCorrupt)
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	check("a closed directory", broken.CheckpointTask("ledger", 3, db, to), state.ErrClosed)
	check("import into a closed directory", broken.ImportTask("ledger", 3, to), state.ErrClosed)
	blind, err := state.OpenDirectory(filepath.Join(t.TempDir(), "s"), state.DirectoryOptions{Application: "payments"})
	if err != nil {
		t.Fatal(err)
	}
	check("a directory that cannot open databases", blind.CheckpointTask("ledger", 3, db, to), nil, "DirectoryOptions.Open")
	if err := blind.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpointFile pins the form of checkpoint.json.
func TestCheckpointFile(t *testing.T) {
	d := owner(t, "payments")
	path, err := d.TaskPath("ledger", 3)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openPebble(path)
	if err != nil {
		t.Fatal(err)
	}
	round := state.RoundID{ProducerID: 4, Epoch: 7, Incarnation: 0xbeef}
	next := state.Positions{Round: round, State: round}
	next.SetInput(state.Input{Topic: "in", Partition: 3, Offset: 12, StreamTime: state.NoTime})
	next.SetChangelog(state.Changelog{Store: "counts", TopicID: [16]byte{1, 2}, Applied: 9, Scanned: 10})
	if err := errors.Join(db.Declare(state.KeyValues("counts", "names")...), db.Apply(state.Positions{}, next, slices.Values([]state.Write{}))); err != nil {
		t.Fatal(err)
	}
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	if err := errors.Join(d.CheckpointTask("ledger", 3, db, checkpoint), db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(checkpoint, "checkpoint.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "takenAt")
	delete(m, "minor") // the next build's
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	if err := e.Encode(m); err != nil {
		t.Fatal(err)
	}
	want := `{"application":"payments","format":1,"inputs":[{"offset":12,"partition":3,"topic":"in"}],"partition":3,` +
		`"round":"4/7/0000beef","state":"4/7/0000beef","stores":[{"applied":9,"layout":"keyvalue","name":"counts",` +
		`"topicId":"01020000000000000000000000000000"},{"applied":0,"layout":"keyvalue","name":"names"}],"subtopology":"ledger"}` + "\n"
	if got.String() != want {
		t.Errorf("checkpoint.json is\n%swant\n%s", got.String(), want)
	}
}
