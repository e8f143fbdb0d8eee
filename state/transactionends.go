package state

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// The ends of transactions in the state directory, the replacement that was not finished, and a
// file that was set aside.
const (
	endsFile      = "transactions.json"
	endsTempFile  = "transactions.json.tmp"
	endsAsideFile = "transactions.json.unused"
)

// endsFormat is the version of the file.
const endsFormat = 1

// endsBytesMax bounds what is read and written as transactions.json.
const endsBytesMax = 2 << 20

// TransactionEnd is what the coordinator of a transactional id has said of its last transaction:
// how that ended.
type TransactionEnd struct {
	TransactionalID string
	ProducerID      int64
	// Epoch is that of the answer, which is the one after the transaction's.
	Epoch int16
	// State is that of the coordinator, such as CompleteCommit.
	State string
	// Started is when the transaction began, to the millisecond; zero if the coordinator did not
	// say it.
	Started time.Time
}

// TransactionEnds are the ends of transactions that an instance has been told of, for the time
// after a restart: coordinators do not keep them.
type TransactionEnds struct {
	// Cluster is the id of the Kafka cluster that has said so.
	Cluster string
	// RoundsTopic is the topic id of the application's rounds topic on that cluster. A cluster that
	// was made again under the same id has another one.
	RoundsTopic [16]byte
	// Ends are in the order in which they were said.
	Ends []TransactionEnd
}

// endsText is transactions.json.
type endsText struct {
	Format      int       `json:"format"`
	Cluster     string    `json:"cluster"`
	RoundsTopic string    `json:"roundsTopic"`
	Ends        []endText `json:"ends"`
	// Sum comes last, as in meta.json.
	Sum string `json:"crc32c"`
}

type endText struct {
	TransactionalID string `json:"transactionalId"`
	ProducerID      int64  `json:"producerId"`
	Epoch           int16  `json:"epoch"`
	State           string `json:"state"`
	StartedMillis   int64  `json:"started,omitempty"`
}

var endsFields = fields{required: []string{"format", "cluster", "roundsTopic", "ends", "crc32c"}}

// SetTransactionEnds replaces what is stored, durably and in one step. With no ends it removes the
// file. The caller judges what it reads: a power loss can take a removal back. The other calls but
// Close do not wait for it.
func (d *Directory) SetTransactionEnds(e TransactionEnds) error {
	d.endsMu.Lock()
	defer d.endsMu.Unlock()
	var err error
	switch {
	case d.isClosed():
		err = ErrClosed
	case len(e.Ends) == 0:
		if err = d.root.Remove(endsFile); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		var data []byte
		if data, err = encodeEnds(e); err == nil {
			err = withFull(replaceFile(d.root, endsTempFile, endsFile, data))
		}
	}
	if err != nil {
		return fmt.Errorf("state: store the ends of transactions in %s in %s: %w", endsFile, d.path, err)
	}
	return nil
}

// TransactionEnds returns what SetTransactionEnds has stored, the zero value if nothing is. Errors
// wrap ErrCorrupt for a file that is damaged, and ErrFormat for one of a newer build.
func (d *Directory) TransactionEnds() (TransactionEnds, error) {
	data, err := readFile(d.root, endsFile, endsBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return TransactionEnds{}, nil
	}
	var e TransactionEnds
	if err == nil {
		e, err = parseEnds(data)
	}
	if err != nil {
		return TransactionEnds{}, fmt.Errorf("state: read the ends of transactions in %s in %s: %w", endsFile, d.path, err)
	}
	return e, nil
}

// SetTransactionEndsAside renames what is stored, so that it is neither read nor replaced. It
// returns the new name in the directory, which a file that was set aside before loses.
func (d *Directory) SetTransactionEndsAside() (string, error) {
	d.endsMu.Lock()
	defer d.endsMu.Unlock()
	err := ErrClosed
	if !d.isClosed() {
		err = d.root.Rename(endsFile, endsAsideFile)
	}
	if err != nil {
		return "", fmt.Errorf("state: set %s aside in %s: %w", endsFile, d.path, err)
	}
	return endsAsideFile, nil
}

func encodeEnds(e TransactionEnds) ([]byte, error) {
	text := endsText{
		Format: endsFormat, Cluster: e.Cluster, RoundsTopic: hex.EncodeToString(e.RoundsTopic[:]), Ends: make([]endText, len(e.Ends)),
		Sum: "00000000", // there, so that everything before it is as it will be
	}
	for i, end := range e.Ends {
		text.Ends[i] = endText{TransactionalID: end.TransactionalID, ProducerID: end.ProducerID, Epoch: end.Epoch, State: end.State}
		if !end.Started.IsZero() {
			text.Ends[i].StartedMillis = end.Started.UnixMilli()
		}
	}
	data, err := json.MarshalIndent(text, "", "  ")
	if err != nil {
		return nil, err
	}
	text.Sum, _ = metaSum(data)
	if data, err = json.MarshalIndent(text, "", "  "); err != nil {
		return nil, err
	}
	if len(data) >= endsBytesMax {
		return nil, fmt.Errorf("%d transactions take %d bytes, more than %d", len(e.Ends), len(data), endsBytesMax)
	}
	return append(data, '\n'), nil
}

// parseEnds refuses everything that encodeEnds has not made: what is in the file decides about
// records.
func parseEnds(data []byte) (TransactionEnds, error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return TransactionEnds{}, fmt.Errorf("%w: it is not JSON: %w", ErrCorrupt, err)
	}
	if version.Format > endsFormat {
		return TransactionEnds{}, fmt.Errorf("%w: it has version %d, this build reads %d", ErrFormat, version.Format, endsFormat)
	}
	var text endsText
	if err := endsFields.decode("it", data, true, &text); err != nil {
		return TransactionEnds{}, err
	}
	if sum, ok := metaSum(data); !ok || sum != text.Sum {
		return TransactionEnds{}, fmt.Errorf("%w: it has the checksum %q, and its content %s", ErrCorrupt, text.Sum, sum)
	}
	e := TransactionEnds{Cluster: text.Cluster, Ends: make([]TransactionEnd, len(text.Ends))}
	topic, err := hex.DecodeString(text.RoundsTopic)
	if err != nil || len(topic) != len(e.RoundsTopic) || text.Format != endsFormat {
		return TransactionEnds{}, fmt.Errorf("%w: format %d or topic id %q are none", ErrCorrupt, text.Format, text.RoundsTopic)
	}
	copy(e.RoundsTopic[:], topic)
	for i, end := range text.Ends {
		e.Ends[i] = TransactionEnd{TransactionalID: end.TransactionalID, ProducerID: end.ProducerID, Epoch: end.Epoch, State: end.State}
		if end.StartedMillis > 0 {
			e.Ends[i].Started = time.UnixMilli(end.StartedMillis)
		}
	}
	return e, nil
}
