package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// format writes a process's configuration, made of who it is, what all have in common and the
// caller's settings, and formats its storage.
func (n *kafkaNode) format(ctx context.Context, path string, identity []string, data string, o Options) error {
	config := serverProperties(identity, data, o.Settings)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// This is a second's work for a fresh JVM: the cheapest compiler and collector are the fastest.
	args := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classPath(n.jars),
		"kafka.tools.StorageTool", "format", "-t", n.id, "-c", path}
	kind := identity[:2:2] // roles and node id
	for _, name := range slices.Sorted(maps.Keys(o.Features)) {
		feature := fmt.Sprintf("%s=%d", name, o.Features[name])
		args, kind = append(args, "--feature", feature), append(kind, feature)
	}
	if done, err := storages.copy(strings.Join(kind, " "), data, n.id); done || err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, n.java, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("format the storage: %w\n%s", err, lastLines(out))
	}
	return storages.keep(strings.Join(kind, " "), data)
}

// storages are the files of the storages that this process has had formatted, so that the next one
// of a kind does not need a JVM for it. What Kafka writes depends on the roles, the node id and the
// levels of features, and holds two ids, which a copy gets anew.
var storages formatted

// metaProperties is the file with the ids.
const metaProperties = "meta.properties"

var errStorage = errors.New("a formatted storage has not the files that are known")

type formatted struct {
	mu    sync.Mutex
	files map[string]map[string][]byte // by kind and name
}

// keep remembers a storage that was just formatted.
func (f *formatted) keep(kind, data string) error {
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(data, e.Name())); err != nil {
			return err
		}
	}
	if files[metaProperties] == nil {
		return fmt.Errorf("%w: %s is not among %d files", errStorage, metaProperties, len(files))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[string]map[string][]byte{}
	}
	f.files[kind] = files
	return nil
}

// copy makes a storage of a kind that is known, and reports whether it is.
func (f *formatted) copy(kind, data, clusterID string) (known bool, err error) {
	f.mu.Lock()
	files, known := f.files[kind]
	f.mu.Unlock()
	if !known {
		return false, nil
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return true, err
	}
	for name, content := range files {
		if name == metaProperties {
			if content, err = withIDs(string(content), clusterID, newID()); err != nil {
				return true, err
			}
		}
		if err := os.WriteFile(filepath.Join(data, name), content, 0o600); err != nil {
			return true, err
		}
	}
	return true, nil
}

// withIDs replaces the ids of a storage's cluster and directory.
func withIDs(meta, clusterID, directoryID string) ([]byte, error) {
	replaced := 0
	var out strings.Builder
	for line := range strings.Lines(meta) {
		for key, id := range map[string]string{"cluster.id=": clusterID, "directory.id=": directoryID} {
			if strings.HasPrefix(line, key) {
				line = key + id + "\n"
				replaced++
			}
		}
		out.WriteString(line)
	}
	if replaced != 2 {
		return nil, fmt.Errorf("%w: %d ids in %s, want 2", errStorage, replaced, metaProperties)
	}
	return []byte(out.String()), nil
}
