package queries

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
)

const (
	// ViewsMax is the most views that a server has open.
	ViewsMax = 256
	// IdleMax is how long a view is kept without a question.
	IdleMax = time.Minute
	// AnswerMax is how long a client waits for an answer, and a server for a client to take one.
	AnswerMax = 10 * time.Second

	// bytesMax bounds the rows of one answer of a scan, unless the first row is larger.
	bytesMax = 256 << 10
	// rowsFirst is how many rows the first question of a scan asks for: many scans look for one
	// row. Each further one asks for four times as many, up to rowsMax.
	rowsFirst, rowsMax = 16, 4096
	// questionMax bounds the bytes of a question. There is room for the two keys of a scan, in
	// base64, if each fits in the largest record that a topic takes by default.
	questionMax = 3 << 20
	// questionsMax bounds the bytes of all questions to one view.
	questionsMax = 64 << 20
	// refusalMax bounds a refusal.
	refusalMax = 64 << 10
)

// expectContinue is the value of the header Expect.
const expectContinue = "100-continue"

// ErrNoAnswer says that the other process has given no answer that can be read.
var ErrNoAnswer = errors.New("there is no answer")

// StatusError says that a server answered with a status, and not as a [Server] does. A proxy in
// between does so, and a server without such a handler.
type StatusError struct {
	Code int
	// Status is the code and its text.
	Status string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered %s, and not as a query handler does", e.Status)
}

// passes says whether the same request can have an answer a moment later.
func (e *StatusError) passes() bool {
	switch e.Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// errLong says that a question has more than questionMax bytes.
var errLong = fmt.Errorf("the question has more than %d bytes: its keys are too long", questionMax)

// Request is what a view is asked for.
type Request struct {
	Store string
	// Partition counts if RecordKey is nil. Otherwise it is the partition of records with that key.
	Partition int32
	RecordKey []byte
	// Stale takes whatever state the owner of the task has.
	Stale bool
	// Standby allows a copy that was at the last commit at most so long ago. 0 allows none.
	Standby time.Duration
	// AtLeast are the offsets that the view has to contain.
	AtLeast []Bound
}

// Bound is a record of an input.
type Bound struct {
	Topic     string
	Partition int32
	Offset    int64
}

func (b Bound) String() string { return fmt.Sprintf("%s/%d/%d", b.Topic, b.Partition, b.Offset) }

func parseBound(text string) (b Bound, err error) {
	parts := strings.Split(text, "/") // no name of a topic has one
	if len(parts) == 3 {
		var partition int64
		partition, err = strconv.ParseInt(parts[1], 10, 32)
		b = Bound{Topic: parts[0], Partition: int32(partition)}
		if err == nil {
			b.Offset, err = strconv.ParseInt(parts[2], 10, 64)
		}
	}
	if len(parts) != 3 || err != nil {
		return b, fmt.Errorf("parameter at_least: %q is not topic/partition/offset", text)
	}
	return b, nil
}

func (r Request) values() url.Values {
	v := url.Values{"store": {r.Store}}
	if r.RecordKey != nil {
		v.Set("record_key", base64.RawURLEncoding.EncodeToString(r.RecordKey))
	} else {
		v.Set("partition", strconv.Itoa(int(r.Partition)))
	}
	if r.Stale {
		v.Set("stale", "true")
	}
	if r.Standby > 0 {
		v.Set("standby", r.Standby.String())
	}
	for _, b := range r.AtLeast {
		v.Add("at_least", b.String())
	}
	return v
}

// ParseRequest reads the parameters of a request. The error does not quote keys.
func ParseRequest(v url.Values) (r Request, err error) {
	r.Store = v.Get("store")
	if v.Has("record_key") {
		if r.RecordKey, err = base64.RawURLEncoding.DecodeString(v.Get("record_key")); err != nil {
			return r, errors.New("parameter record_key: it is not base64 for URLs")
		}
	} else if r.Partition, err = partition(v); err != nil {
		return r, err
	}
	err = r.allow(v)
	return r, err
}

func partition(v url.Values) (int32, error) {
	n, err := strconv.ParseInt(v.Get("partition"), 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("parameter partition: %q is no partition", v.Get("partition"))
	}
	return int32(n), nil
}

// allow reads what may be served, and what it has to contain.
func (r *Request) allow(v url.Values) (err error) {
	if v.Has("stale") {
		if r.Stale, err = strconv.ParseBool(v.Get("stale")); err != nil {
			return fmt.Errorf("parameter stale: %q is neither true nor false", v.Get("stale"))
		}
	}
	if v.Has("standby") {
		if r.Standby, err = time.ParseDuration(v.Get("standby")); err != nil || r.Standby <= 0 {
			return fmt.Errorf("parameter standby: %q is no positive duration, such as 5s", v.Get("standby"))
		}
	}
	for _, text := range v["at_least"] {
		b, err := parseBound(text)
		if err != nil {
			return err
		}
		r.AtLeast = append(r.AtLeast, b)
	}
	return nil
}

// At says what a view contains, and whose it is.
type At struct {
	Instance  string          `json:"instance"`
	Partition int32           `json:"partition"`
	Positions state.Positions `json:"positions"`
	// Member and Revokes are the epoch of the owner; both are zero for a copy.
	Member  string `json:"member,omitempty"`
	Revokes uint64 `json:"revokes,omitempty"`
	// Stale is why the view would not have been served as current, nil if it would.
	Stale *Refusal `json:"stale,omitempty"`
	// Standby says that the view is of a copy, and Age how long ago that was at the last commit.
	Standby bool          `json:"standby,omitempty"`
	Age     time.Duration `json:"age_ns,omitempty"`
}

// Refusal is an error that came from another process. Reason names it for programs.
type Refusal struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

func (r *Refusal) Error() string { return r.Text }

type question struct {
	Get  *get  `json:"get,omitempty"`
	Scan *scan `json:"scan,omitempty"`
}

type get struct {
	Key []byte `json:"key"`
}

// scan is a range. A bound that is null is open.
type scan struct {
	From    []byte `json:"from"`
	To      []byte `json:"to"`
	Reverse bool   `json:"reverse,omitempty"`
	Rows    int    `json:"rows"`
}

type answer struct {
	Found   bool     `json:"found,omitempty"`
	Value   []byte   `json:"value,omitempty"`
	Rows    []row    `json:"rows,omitempty"`
	More    bool     `json:"more,omitempty"`
	Refusal *Refusal `json:"refusal,omitempty"`
}

type row struct {
	Key   []byte `json:"k"`
	Value []byte `json:"v"`
}
