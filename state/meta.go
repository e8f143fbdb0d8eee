package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const (
	metaFile     = "meta.json"
	metaTempFile = "meta.json.tmp"
)

// meta is the identity of a state directory (FORMAT.md).
type meta struct {
	Format      int    `json:"format"`
	Minor       int    `json:"minor,omitempty"`
	Application string `json:"application"`
	Instance    string `json:"instance"`
	Fingerprint string `json:"fingerprint"`
	MaxWorkers  int    `json:"maxWorkers"`
	nextMeta
	// Sum comes last: it is the checksum of everything before it. Files of early builds have none.
	Sum string `json:"crc32c,omitempty"`
}

var metaFields = fields{
	required: []string{"format", "application", "instance", "fingerprint", "maxWorkers"},
	optional: []string{"minor", "crc32c"},
}

// metaBytesMax bounds what is read as meta.json.
const metaBytesMax = 1 << 20

// metaSumKey begins the last field.
const metaSumKey = `"crc32c"`

// metaSum returns the checksum of the encoded fields before the last one; ok is false when that is
// none.
func metaSum(data []byte) (sum string, ok bool) {
	end := bytes.LastIndex(data, []byte(metaSumKey))
	if end < 0 {
		return "", false
	}
	return fmt.Sprintf("%08x", crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli))), true
}

// olderThanBuild reports whether an older build wrote m.
func (m meta) olderThanBuild() bool {
	return m.Format < formatMajor || m.Format == formatMajor && m.Minor < formatMinor
}

// parseMeta refuses everything that writeMeta did not write, except the fields of a newer minor
// version: the owner of a directory must not be guessed.
func parseMeta(data []byte) (meta, error) {
	// The version first, with everything else ignored: a newer format may have other fields.
	var version struct {
		Format *int `json:"format"`
		Minor  int  `json:"minor"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return meta{}, fmt.Errorf("%w: %s is not JSON: %w", ErrCorrupt, metaFile, err)
	}
	if version.Format == nil || *version.Format < 1 || version.Minor < 0 {
		return meta{}, fmt.Errorf("%w: %s has no format version", ErrCorrupt, metaFile)
	}
	if *version.Format > formatMajor {
		return meta{}, fmt.Errorf("%w: %s has version %d, this build reads %d: use the build that wrote it or a "+
			"newer one, or remove the directory and let this build restore the state from the changelogs",
			ErrFormat, metaFile, *version.Format, formatMajor)
	}
	var m meta
	if err := metaFields.decode(metaFile, data, *version.Format == formatMajor && version.Minor <= formatMinor, &m); err != nil {
		return meta{}, err
	}
	if sum, ok := metaSum(data); ok && sum != m.Sum {
		return meta{}, fmt.Errorf("%w: %s has the checksum %q, and its content %s: after an edit by hand, leave the field out",
			ErrCorrupt, metaFile, m.Sum, sum)
	}
	if err := checkName(m.Instance); err != nil {
		return meta{}, fmt.Errorf("%w: %s: instance: %w", ErrCorrupt, metaFile, err)
	}
	if m.Application == "" || m.MaxWorkers < 0 {
		return meta{}, fmt.Errorf("%w: %s has no application, or less than no workers", ErrCorrupt, metaFile)
	}
	return m, nil
}

// readMeta returns the content of meta.json; found is false when there is none.
func readMeta(root *os.Root) (m meta, found bool, err error) {
	data, err := readFile(root, metaFile, metaBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return meta{}, false, nil
	}
	if err != nil {
		return meta{}, false, err
	}
	m, err = parseMeta(data)
	return m, true, err
}

// encodeMeta returns the content of meta.json, with the version of this build and the checksum.
func encodeMeta(m meta) ([]byte, error) {
	m.Format, m.Minor, m.nextMeta = formatMajor, formatMinor, nextMetaNow()
	m.Sum = "00000000" // there, so that everything before it is as it will be
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if m.Sum, _ = metaSum(data); m.Sum == "" {
		return nil, errors.New("the checksum has no place")
	}
	data, err = json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

// writeMeta replaces meta.json in one atomic step that a power loss cannot split: the content is
// the old one or the new one.
func writeMeta(root *os.Root, m meta) error {
	data, err := encodeMeta(m)
	if err != nil {
		return err
	}
	return replaceFile(root, metaTempFile, metaFile, data)
}

// replaceFile replaces the file of that name in one atomic step that a power loss cannot split, by
// way of another name.
func replaceFile(root *os.Root, temp, name string, data []byte) error {
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := root.Rename(temp, name); err != nil {
		return err
	}
	return syncDirectory(root, ".")
}

// syncDirectory makes the entries of a directory durable. Windows has no such call; NTFS journals
// the entries itself.
func syncDirectory(root *os.Root, name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// syncParent makes the entry of a new directory durable in the one above it.
func syncParent(path string) error {
	parent, err := os.OpenRoot(filepath.Dir(filepath.Clean(path)))
	if err != nil {
		return err
	}
	return errors.Join(syncDirectory(parent, "."), parent.Close())
}
