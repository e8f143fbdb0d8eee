package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

// Open opens the database in the directory path, which it creates (0700) if there is none; that the
// directories above it are durable is the caller's business (state.Directory sees to it). The
// directory belongs to one process at a time; the caller's lock on the state directory sees to
// that, and a lock in here is the second line.
//
// Errors wrap state.ErrCorrupt if the directory is damaged: it has to be removed and restored then.
// They wrap state.ErrFormat if a newer build wrote it, and state.ErrLocked if it is open already.
// Other errors are those of the environment (permissions, a full disk, which is state.ErrFull) and
// change nothing.
func Open(path string, o Options) (state.Database, error) {
	d, err := openDatabase(path, o)
	if err != nil {
		return nil, err
	}
	if len(o.InMemory) > 0 {
		return openSplit(d, o)
	}
	return d, nil
}

func openDatabase(path string, o Options) (*database, error) {
	o.setDefaults()
	if err := o.FS.MkdirAll(path, 0o700); err != nil {
		if state.IsFull(err) {
			err = fmt.Errorf("%w: %w", state.ErrFull, err)
		}
		return nil, fmt.Errorf("pebblestore: open %s: %w", path, err)
	}
	f := newFault(path, o.Logger, o.FS)
	db, lock, err := openPebble(path, o, f)
	if err != nil {
		return nil, fmt.Errorf("pebblestore: %w", err)
	}
	d := newDatabase(path, db, lock, f, o)
	if err := d.load(); err != nil {
		return nil, errors.Join(err, d.abandon())
	}
	f.opened.Store(true)
	go d.runFlusher()
	return d, nil
}

// openPebble locks the directory, opens Pebble and sorts its errors.
func openPebble(path string, o Options, f *fault) (_ *pebble.DB, _ *pebble.Lock, err error) {
	lock, err := pebble.LockDirectory(path, o.FS)
	if err != nil {
		e := f.newError("lock", err)
		if heldByAnother(err) {
			e.class = state.ErrLocked
		}
		return nil, nil, e
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.files.closeAll(), lock.Close())
		}
	}()
	if err := checkFormat(path, o, f); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(removeEmptyLogs(path, o), removeLoadDirectory(path, o)); err != nil {
		return nil, nil, f.newError("open", err)
	}
	options := pebbleOptions(o, f)
	options.Lock = lock
	db, err := pebble.Open(path, options)
	if stopped := f.check("open"); stopped != nil {
		if err == nil {
			_ = db.Close() // stopped is the reason of whatever this says
		}
		return nil, nil, stopped
	}
	if err != nil {
		e := f.newError("open", err)
		if !environmental(err) {
			e.class = state.ErrCorrupt
		}
		return nil, nil, e
	}
	return db, lock, nil
}

// heldByAnother reports whether err is the refusal of a lock: by Pebble's list of this process, by
// fcntl, or by the exclusive open of Windows (error 32, a sharing violation).
func heldByAnother(err error) bool {
	return !environmental(err) && !errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EAGAIN) ||
		runtime.GOOS == "windows" && errors.Is(err, syscall.Errno(32))
}

// checkFormat looks at the version of Pebble's format, before anything is changed. Pebble knows no
// type for this error.
func checkFormat(path string, o Options, f *fault) error {
	found, err := pebble.Peek(path, o.FS)
	if err == nil && !found.Exists {
		return checkNew(path, o, f)
	}
	if err == nil {
		return nil
	}
	e := f.newError("open", err)
	if !environmental(err) {
		e.class = state.ErrFormat
	}
	return e
}

// checkNew refuses tables that no MANIFEST names: Pebble would take the directory for a new
// database and remove them. The marker that names the MANIFEST is durable before the first table is
// written, so this is a copy that was not finished, or one of the files is lost.
func checkNew(path string, o Options, f *fault) error {
	names, err := o.FS.List(path)
	if err != nil {
		return f.newError("open", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			return fmt.Errorf("open %s: %w: there is the table %s, and the marker of its MANIFEST is missing", path,
				state.ErrCorrupt, name)
		}
	}
	return nil
}

// environmental reports whether the operating system is the origin of err. Everything else that
// Pebble finds at open is damage, and so is a missing file: the directory is there, and one of its
// files names another that is not.
func environmental(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && !errors.Is(err, fs.ErrNotExist)
}

// emptyLogSizeMax is below the smallest log with a batch in it: 11 bytes of framing, 12 of header,
// 3 of the shortest write. A log that was closed without a batch has a trailer of 11 or 19 bytes.
const emptyLogSizeMax = 25

// removeEmptyLogs removes the log files that Pebble creates even when it does not log. Finding one,
// it would flush at open, and if the disk refuses that it tries again without end and Open never
// returns.
func removeEmptyLogs(path string, o Options) error {
	names, err := o.FS.List(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		file := o.FS.PathJoin(path, name)
		info, err := o.FS.Stat(file)
		if err != nil {
			return err
		}
		// A larger one was written by a build that logs: Pebble reads it.
		if info.Size() > emptyLogSizeMax {
			continue
		}
		if err := o.FS.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// load reads what the database says about itself, or writes it if the database is new.
func (d *database) load() error {
	format, found, err := getRaw(d.db, formatKey)
	if err = d.fault.read("open", err); err != nil {
		return err
	}
	if !found {
		return d.initialise()
	}
	if len(format) == 0 || format[0] != formatMajor {
		return fmt.Errorf("pebblestore: open %s: %w: the database says version %x, this build reads %d",
			d.path, state.ErrFormat, format, formatMajor)
	}
	encoded, found, err := getRaw(d.db, positionsKey)
	if err = d.fault.read("open", err); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("pebblestore: open %s: %w: there are no positions", d.path, state.ErrCorrupt)
	}
	positions, err := state.ParsePositions(encoded)
	if err != nil {
		return fmt.Errorf("pebblestore: open %s: %w", d.path, err)
	}
	d.positions.Store(&positions)
	return d.loadNames()
}

// initialise writes the format to an empty database. A database with data but without a format is
// none of ours.
func (d *database) initialise() error {
	it, err := d.db.NewIter(nil)
	if err = d.fault.read("open", err); err != nil {
		return err
	}
	empty := !it.First()
	if err := d.fault.read("open", errors.Join(it.Error(), it.Close())); err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("pebblestore: open %s: %w: there is data but no format", d.path, state.ErrCorrupt)
	}
	b := d.db.NewBatch()
	defer releaseBatch(b)
	if err := b.Set(formatKey, []byte{formatMajor}, nil); err != nil {
		return d.fault.newError("open", err)
	}
	d.positions.Store(&state.Positions{})
	return d.commitDirect("open", b, &state.Positions{})
}

// loadNames reads the declared names.
func (d *database) loadNames() error {
	names := state.Prefix([]byte(storePrefix))
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: names.From, UpperBound: names.To})
	if err = d.fault.read("open", err); err != nil {
		return err
	}
	var bad error
	for valid := it.First(); valid; valid = it.Next() {
		id, ok := parseNameKey(it.Key())
		declared, err := state.ParseDeclaration(it.Value())
		switch {
		case err != nil:
			bad = fmt.Errorf("pebblestore: open %s: %w", d.path, err)
		case !ok || state.IDOf(declared.Name) != id:
			bad = fmt.Errorf("pebblestore: open %s: %w: a declared store has another id than its name",
				d.path, state.ErrCorrupt)
		default:
			d.names.byID[id] = declared
			d.habits.of(id).declare(declared.Layout)
			continue
		}
		break
	}
	return errors.Join(bad, d.fault.read("open", errors.Join(it.Error(), it.Close())))
}

// Declare implements state.Database.
func (d *database) Declare(stores ...state.Declaration) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if err := d.usable("declare"); err != nil {
		return err
	}
	b := d.db.NewBatch()
	defer releaseBatch(b)
	added, err := d.newNames(stores)
	if err != nil || len(added) == 0 {
		return err
	}
	for _, s := range added {
		if err := b.Set(nameKey(state.IDOf(s.Name)), s.Append(nil), nil); err != nil {
			return d.fault.newError("declare", err)
		}
	}
	if err := d.commitDirect("declare", b, d.positions.Load()); err != nil {
		return err
	}
	d.names.Lock()
	defer d.names.Unlock()
	for _, s := range added {
		d.names.byID[state.IDOf(s.Name)] = s
		d.habits.of(state.IDOf(s.Name)).declare(s.Layout)
	}
	return nil
}

// newNames returns the stores that are not declared so yet. The caller holds applying.
func (d *database) newNames(stores []state.Declaration) ([]state.Declaration, error) {
	d.names.Lock()
	known := maps.Clone(d.names.byID) // looking for rows takes other locks
	d.names.Unlock()
	added, err := state.Undeclared(known, stores, d.emptyStore)
	if err != nil {
		return nil, fmt.Errorf("pebblestore: declare in %s: %w", d.path, err)
	}
	return added, nil
}

// emptyStore reports whether a store has no rows.
func (d *database) emptyStore(id state.StoreID) (bool, error) {
	next, stop := iter.Pull2(d.Scan(id, state.Range{}))
	defer stop()
	_, err, found := next()
	return !found, err
}

// Stores implements state.Database.
func (d *database) Stores() ([]state.Declaration, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.life.closed {
		return nil, errClosed("list stores", d.path)
	}
	d.names.Lock()
	defer d.names.Unlock()
	return slices.SortedFunc(maps.Values(d.names.byID), state.Declaration.Compare), nil
}
