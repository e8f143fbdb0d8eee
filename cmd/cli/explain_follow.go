package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/txn/admin"
)

// followed is a decision about another row, or by a processor whose rows are not asked for, to
// which a decision about the row has led, or one that was followed. Its fields are for programs and
// stay.
type followed struct {
	// Link says what the two have in common: the record, or an id, which is LinkID.
	Link   string `json:"link"`
	LinkID string `json:"link_id,omitempty"`
	// FromPartition and FromOffset are where the evidence is that has led here.
	FromPartition int32 `json:"from_evidence_partition"`
	FromOffset    int64 `json:"from_evidence_offset"`
	// rowJSON has the row's key and nothing else.
	rowJSON
	decided

	row part
}

// What two decisions can have in common.
const (
	linkRecord = "record"
	linkID     = "id"
)

func (f *followed) from() evidenceAt { return evidenceAt{f.FromPartition, f.FromOffset} }

// evidenceAt is where a decision is in the topic of evidence.
type evidenceAt struct {
	partition int32
	offset    int64
}

// follow adds the decisions to which those about the row lead. It reads the topic again as long as
// that leads further: no index of it is kept in memory, which can be of any size.
func (x *explanation) follow(ctx context.Context, client *admin.Client, topic string, rows func(store string) rowEncoder) error {
	t := trail{map[evidenceAt]bool{}, map[string]evidenceAt{}, map[string]evidenceAt{}, map[string]evidenceAt{}, map[[2]string]evidenceAt{}}
	for i := range x.Decisions {
		t.add(&x.Decisions[i])
	}
	for further := len(x.Decisions) > 0; further; {
		further = false
		err := client.Each(ctx, topic, admin.EachOptions{}, func(r admin.Record) error {
			if t.seen[evidenceAt{r.Partition, r.Offset}] {
				return nil
			}
			d, err := decisionOf(topic, r)
			if err != nil {
				return err
			}
			f, leads := t.leads(d)
			if !leads {
				return nil
			}
			if f.Store != "" {
				f.row = rows(f.Store).keyPart(f.Row)
				f.rowJSON = keyJSON(f.row)
			}
			t.add(&f.decided)
			x.Followed, further = append(x.Followed, f), true
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(x.Followed, func(a, b followed) int { return cmp.Compare(a.Time, b.Time) })
	return nil
}

// trail is what is known of the decisions that were found: by each clue, where the first one is
// that has it.
type trail struct {
	seen map[evidenceAt]bool
	// records are the positions of the records in whose turn it was decided.
	records map[string]evidenceAt
	// ids are those that name one thing in all rows: those of headers, and the row itself where it
	// is an id, as in an inbox.
	ids map[string]evidenceAt
	// subjects are all that was decided about, rows the same with their rows: a contribution is one
	// of its ledger.
	subjects map[string]evidenceAt
	rows     map[[2]string]evidenceAt
}

func (t *trail) add(d *decided) {
	at := d.at()
	t.seen[at] = true
	if record := positionOf(&d.Entry); record != "" {
		first(t.records, record, at)
	}
	for _, id := range idsOf(&d.Entry) {
		first(t.ids, id, at)
	}
	if d.Subject != "" {
		first(t.subjects, d.Subject, at)
		first(t.rows, [2]string{string(d.Row), d.Subject}, at)
	}
}

// first keeps where a clue was found first.
func first[K comparable](found map[K]evidenceAt, clue K, at evidenceAt) {
	if _, known := found[clue]; !known {
		found[clue] = at
	}
}

// leads reports whether a decision has something in common with one that was found.
func (t *trail) leads(d decided) (f followed, ok bool) {
	f = followed{Link: linkRecord, decided: d}
	led := func(from evidenceAt, found bool) bool {
		if found {
			f.FromPartition, f.FromOffset = from.partition, from.offset
		}
		return found
	}
	if from, found := t.records[positionOf(&d.Entry)]; led(from, found) {
		return f, true
	}
	f.Link = linkID
	for _, id := range idsOf(&d.Entry) {
		f.LinkID = id
		if from, found := t.ids[id]; led(from, found) {
			return f, true
		}
		if from, found := t.subjects[id]; led(from, found) {
			return f, true
		}
	}
	if d.Subject == "" {
		return f, false
	}
	f.LinkID = d.Subject
	if from, found := t.ids[d.Subject]; led(from, found) {
		return f, true
	}
	from, found := t.rows[[2]string{string(d.Row), d.Subject}]
	ok = led(from, found)
	return f, ok
}

// positionOf returns where the record is in whose turn it was decided, "" if it was in that of
// none.
func positionOf(e *evidence.Entry) string {
	if e.Topic == "" {
		return e.Turn
	}
	return fmt.Sprintf("%s[%d]@%d", e.Topic, e.Partition, e.Offset)
}

// idsOf returns the ids that name one thing in all rows.
func idsOf(e *evidence.Entry) (ids []string) {
	for _, id := range []string{e.EventID, e.MessageID} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	if e.Subject != "" && e.Subject == string(e.Row) {
		ids = append(ids, e.Subject)
	}
	return ids
}

// writeFollowed writes what a decision has led to, each behind the one that has led there.
func writeFollowed(text *strings.Builder, indent string, led map[evidenceAt][]*followed, from evidenceAt) {
	for _, f := range led[from] {
		whose := ""
		if f.Store != "" {
			whose = fmt.Sprintf("; row %s of %s", oneLine(f.row.String()), f.Store)
		}
		link := "; the same record"
		if f.Link == linkID {
			link = "; the id " + oneLine(f.LinkID)
		}
		writeLines(text, indent, f.lines(whose+link))
		writeFollowed(text, indent+"    ", led, f.at())
	}
}
