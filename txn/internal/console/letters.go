package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// Letters reads and redrives dead letters. Package txn/admin implements it. All methods are safe for
// concurrent use, and end when their context does.
type Letters interface {
	// Newest returns the newest dead letters of a topic that a filter chooses, at most so many. It
	// shows their contents with a function, if that is not nil, and keeps no other content.
	Newest(ctx context.Context, topic string, f LetterFilter, most int, content ContentFunc) (LetterList, error)
	// Redrive writes the records of these dead letters again to where they died, exactly once, or
	// with dry only checks whether it could. A dead letter that is not as it is named any more is
	// left with the outcome [Changed]. It returns the outcomes also beside an error: those of the
	// batches that were committed before it.
	Redrive(ctx context.Context, topic string, letters []LetterName, dry bool) ([]LetterOutcome, error)
}

// LetterFilter chooses dead letters. Fields that are zero choose all.
type LetterFilter struct {
	Class graph.Class
	// Topic is that in which the record died first, or of the input that it comes from.
	Topic string
	// Redriven chooses also those that were redriven.
	Redriven bool
}

// LetterName names a dead letter as a list showed it. An id alone does not: several dead letters can
// have it, and it stays when the record dies again or is edited.
type LetterName struct {
	ID     string `json:"id"`
	Deaths int    `json:"deaths"`
	// At is where the newest edition was when it was listed, without the topic.
	At Position `json:"at"`
}

// Changed is the outcome of a dead letter that is not as it was listed: it was redriven or edited
// since, or is gone.
const Changed = "left: changed since it was listed"

// LetterList is what a list shows.
type LetterList struct {
	Letters []Letter `json:"letters"`
	// More says that the filter chooses more than these.
	More bool `json:"more"`
	// Looked is how many records at the end of the topic were read, 0 for all.
	Looked int64 `json:"looked,omitempty"`
}

// Letter is a dead letter.
type Letter struct {
	ID          string `json:"id"`
	Deaths      int    `json:"deaths"`
	Edition     int    `json:"edition,omitempty"`
	Application string `json:"application"`
	Task        string `json:"task"`
	Node        string `json:"node"`
	Class       string `json:"class"`
	// Message is the reason, and quotes nothing of the record.
	Message      string    `json:"message"`
	Attempts     int       `json:"attempts"`
	FirstFailure time.Time `json:"first_failure"`
	LastFailure  time.Time `json:"last_failure"`
	// Origin is where the record died first. Source is the record of the input that it comes from,
	// nil if the dead letter does not say it. At is where the dead letter is, without the topic.
	Origin Position  `json:"origin"`
	Source *Position `json:"source,omitempty"`
	At     Position  `json:"at"`
	// To is where a redrive writes the record.
	To       string     `json:"to"`
	Redriven *time.Time `json:"redriven,omitempty"`
	Cut      string     `json:"cut,omitempty"`
	// Content is the record's, nil where it is not shown.
	Content *Content `json:"content,omitempty"`
}

// Position is a record.
type Position struct {
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Content is a record in words.
type Content struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// ContentFunc returns the key and the value of a record of a topic in words. It keeps neither.
type ContentFunc func(topic string, key, value []byte) Content

// LetterOutcome says what a redrive did with a dead letter.
type LetterOutcome struct {
	LetterName
	// To is where the record was to be written, empty with the outcome [Changed].
	To      string `json:"to,omitempty"`
	Outcome string `json:"outcome"`
}

// letterState tells the page what it can do.
type letterState struct {
	Topic string `json:"topic,omitempty"`
	// Why says why there is no list; empty if there is one.
	Why string `json:"why,omitempty"`
	// Actions and Contents say what is allowed.
	Actions  bool     `json:"actions"`
	Contents bool     `json:"contents"`
	Classes  []string `json:"classes"`
}

const (
	// lettersMax is the most dead letters that are shown, and redriven by one request.
	lettersMax = 100
	// listTime bounds the reading of a list, actionTime an action.
	listTime   = 8 * time.Second
	actionTime = 2 * time.Minute
	// answerTime is how long the answer to an action may take to be written.
	answerTime = 10 * time.Second
	// bodyMax bounds the body of an action.
	bodyMax = 256 << 10
)

// deadLetters serves the part of the page about dead letters.
type deadLetters struct{ src Source }

// state says what the page can do.
func (l *deadLetters) state() letterState {
	s := letterState{Topic: l.src.DeadLetterTopic, Actions: l.src.Actions, Contents: l.src.Content != nil}
	for c := graph.Transient; c <= graph.Fatal; c++ {
		s.Classes = append(s.Classes, c.String())
	}
	switch {
	case s.Topic == "":
		s.Why = "The topology has no dead-letter topic."
	case l.src.Letters == nil:
		s.Why = "This program gives the console no access to dead letters (Config.Console). `onceward deadletters list` shows them."
	}
	return s
}

// route adds what the page asks for.
func (l *deadLetters) route(mux *http.ServeMux) {
	mux.Handle("GET /dead-letters", ownSite(l.list))
	// A page of another site must not act in the name of the person who looks at it.
	mux.Handle("POST /dead-letters/redrive", http.NewCrossOriginProtection().Handler(http.HandlerFunc(l.redrive)))
}

// refuse answers with an error. Its text is for a person.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // the only way to fail is a client that has gone away
}

// list answers with the newest dead letters.
func (l *deadLetters) list(w http.ResponseWriter, r *http.Request) {
	if why := l.state().Why; why != "" {
		refuse(w, http.StatusNotFound, why)
		return
	}
	select {
	case l.src.Work.lists <- struct{}{}:
		defer func() { <-l.src.Work.lists }()
	default:
		refuse(w, http.StatusServiceUnavailable, "other lists are being read; try again")
		return
	}
	f := LetterFilter{Topic: r.FormValue("source"), Redriven: r.FormValue("redriven") == "true"}
	if class := r.FormValue("class"); class != "" {
		var err error
		if f.Class, err = graph.ParseClass(class); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), listTime)
	defer cancel()
	found, err := l.src.Letters.Newest(ctx, l.src.DeadLetterTopic, f, lettersMax, l.src.Content)
	if err != nil {
		refuse(w, http.StatusBadGateway, oneLine(err.Error()))
		return
	}
	if found.Letters == nil {
		found.Letters = []Letter{}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found) // the only way to fail is a client that has gone away
}

// redriveRequest is the body of an action.
type redriveRequest struct {
	Letters []LetterName `json:"letters"`
	DryRun  bool         `json:"dry_run"`
}

// redrive redrives the dead letters that a request names.
func (l *deadLetters) redrive(w http.ResponseWriter, r *http.Request) {
	if !l.src.Actions {
		refuse(w, http.StatusForbidden, "this console is read-only (Config.Console.Actions, --console-actions)")
		return
	}
	if why := l.state().Why; why != "" {
		refuse(w, http.StatusNotFound, why)
		return
	}
	asked, err := readRedrive(w, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	select {
	case l.src.Work.acts <- struct{}{}:
		defer func() { <-l.src.Work.acts }()
	default:
		refuse(w, http.StatusConflict, "another redrive of this instance is at work; try again")
		return
	}
	// The server's own bound is for pages. Where this fails the connection is gone.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(actionTime + answerTime))
	ctx, cancel := context.WithTimeout(r.Context(), actionTime)
	defer cancel()
	outcomes, err := l.src.Letters.Redrive(ctx, l.src.DeadLetterTopic, asked.Letters, asked.DryRun)
	if !asked.DryRun {
		l.tell(r, asked.Letters, outcomes, err)
	}
	answer := struct {
		DryRun   bool            `json:"dry_run"`
		Outcomes []LetterOutcome `json:"outcomes"`
		Error    string          `json:"error,omitempty"`
	}{DryRun: asked.DryRun, Outcomes: outcomes}
	status := http.StatusOK
	if err != nil {
		answer.Error, status = oneLine(err.Error()), http.StatusBadGateway
	}
	if answer.Outcomes == nil {
		answer.Outcomes = []LetterOutcome{}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the only way to fail is a client that has gone away
}

// readRedrive reads a request. A form of a page has none of its types, so a browser asks before it
// sends this one to another site.
func readRedrive(w http.ResponseWriter, r *http.Request) (asked redriveRequest, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return asked, errors.New("the content type has to be application/json")
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax))
	body.DisallowUnknownFields()
	if err := body.Decode(&asked); err != nil {
		return asked, errors.New("the body is no request to redrive")
	}
	if len(asked.Letters) == 0 || len(asked.Letters) > lettersMax {
		return asked, fmt.Errorf("%d dead letters are named; 1 to %d are possible", len(asked.Letters), lettersMax)
	}
	return asked, nil
}

// tell logs what an action has done.
func (l *deadLetters) tell(r *http.Request, named []LetterName, outcomes []LetterOutcome, err error) {
	log := l.src.Logger.With("topic", l.src.DeadLetterTopic, "client", r.RemoteAddr)
	for _, o := range outcomes {
		log.Info("a dead letter was to be redriven from the console", "letter", oneLine(o.ID), "deaths", o.Deaths,
			"partition", o.At.Partition, "offset", o.At.Offset, "to", o.To, "outcome", o.Outcome)
	}
	level, attrs := slog.LevelInfo, []any{"asked_for", len(named), "looked_at", len(outcomes)}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, "error", err)
	}
	log.Log(context.WithoutCancel(r.Context()), level, "a redrive from the console has ended", attrs...)
}

// oneLine replaces control characters. Any producer can write the texts of a dead letter.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
