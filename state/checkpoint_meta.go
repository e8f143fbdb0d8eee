package state

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"
)

// checkpointMeta is the content of checkpoint.json (FORMAT.md).
type checkpointMeta struct {
	Format      int    `json:"format"`
	Minor       int    `json:"minor,omitempty"`
	Application string `json:"application"`
	Subtopology string `json:"subtopology"`
	Partition   int32  `json:"partition"`
	// TakenAt is for people.
	TakenAt time.Time         `json:"takenAt"`
	Round   string            `json:"round"`
	State   string            `json:"state"`
	Inputs  []checkpointInput `json:"inputs"`
	Stores  []checkpointStore `json:"stores"`
}

type checkpointInput struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// checkpointStore is a declared store, with the position in its changelog if there is one.
type checkpointStore struct {
	Name    string `json:"name"`
	Layout  string `json:"layout"`
	TopicID string `json:"topicId,omitempty"`
	Applied int64  `json:"applied"`
}

// newCheckpointMeta describes a database; whose it is, is left to the caller.
func newCheckpointMeta(stores []Declaration, p Positions) checkpointMeta {
	m := checkpointMeta{
		Round: p.Round.String(), State: p.State.String(), Inputs: []checkpointInput{}, Stores: []checkpointStore{},
	}
	for _, in := range p.Inputs {
		m.Inputs = append(m.Inputs, checkpointInput{in.Topic, in.Partition, in.Offset})
	}
	for _, d := range stores {
		s := checkpointStore{Name: d.Name, Layout: d.Layout.String()}
		if c, ok := p.Changelog(d.Name); ok {
			s.TopicID, s.Applied = hex.EncodeToString(c.TopicID[:]), c.Applied
		}
		m.Stores = append(m.Stores, s)
	}
	return m
}

// holds reports whether a database that looks like at is the one that m describes.
func (m checkpointMeta) holds(at checkpointMeta) error {
	switch {
	case m.Round != at.Round || m.State != at.State:
		return fmt.Errorf("%w: %s names round %s and state %s, the database is at %s and %s", ErrCorrupt, checkpointFile,
			m.Round, m.State, at.Round, at.State)
	case !slices.Equal(m.Inputs, at.Inputs):
		return fmt.Errorf("%w: the database is not at the input offsets of %s", ErrCorrupt, checkpointFile)
	case !reflect.DeepEqual(m.Stores, at.Stores):
		return fmt.Errorf("%w: the database does not hold the stores of %s", ErrCorrupt, checkpointFile)
	}
	return nil
}

// write writes checkpoint.json into a directory that has no name yet, durably.
func (m checkpointMeta) write(dir string) error {
	m.Format, m.Minor = formatMajor, formatMinor
	m.TakenAt = time.Now().UTC().Truncate(time.Second)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	f, err := root.OpenFile(checkpointFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(append(data, '\n'))
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = syncDirectory(root, ".")
	}
	return errors.Join(err, root.Close())
}

var checkpointFields = fields{
	required: []string{
		"format", "application", "subtopology", "partition", "takenAt", "round", "state", "inputs", "stores",
	},
	optional: []string{"minor"},
}

// checkpointBytesMax bounds what is read of a file that may be anything.
const checkpointBytesMax = 16 << 20

// readCheckpointMeta reads checkpoint.json.
func readCheckpointMeta(root *os.Root) (checkpointMeta, error) {
	data, err := readFile(root, checkpointFile, checkpointBytesMax)
	if errors.Is(err, os.ErrNotExist) {
		return checkpointMeta{}, fmt.Errorf("%w: it has no %s and is no checkpoint of a task", ErrForeign, checkpointFile)
	}
	if err != nil {
		return checkpointMeta{}, err
	}
	return parseCheckpointMeta(data)
}

// parseCheckpointMeta looks at the version first and refuses, like parseMeta, what this build does
// not know.
func parseCheckpointMeta(data []byte) (checkpointMeta, error) {
	var version struct {
		Format *int `json:"format"`
		Minor  int  `json:"minor"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return checkpointMeta{}, fmt.Errorf("%w: %s is not JSON: %w", ErrCorrupt, checkpointFile, err)
	}
	if version.Format == nil || *version.Format < 1 || version.Minor < 0 {
		return checkpointMeta{}, fmt.Errorf("%w: %s has no format version", ErrCorrupt, checkpointFile)
	}
	if *version.Format > formatMajor {
		return checkpointMeta{}, fmt.Errorf("%w: %s has version %d, this build reads %d: import it with the build that "+
			"took it or a newer one", ErrFormat, checkpointFile, *version.Format, formatMajor)
	}
	var m checkpointMeta
	if err := checkpointFields.decode(checkpointFile, data, *version.Format == formatMajor && version.Minor <= formatMinor, &m); err != nil {
		return checkpointMeta{}, err
	}
	return m, nil
}
