package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/onceward/onceward/txn/internal/console"
)

// newestOptions bound what newest reads and keeps.
type newestOptions struct {
	// most is how many dead letters are returned.
	most int
	// records is how many offsets before the end of the topic are read, divided among its partitions.
	// If they have more than so many bytes, an eighth of them is read, and so on.
	records, bytes int64
	// content shows the content of the dead letters, nil for none.
	content console.ContentFunc
}

// errLarge ends a reading that has come to its bound of bytes.
var errLarge = errors.New("the records at the end of the topic are too large to be listed: use onceward deadletters list")

// newest returns the dead letters that a filter chooses, the last failure first. It reads the end of
// each partition only, and looked says how many offsets that were, 0 for all. The editions and marks
// of a dead letter are behind it, so that they are read with it. A dead letter in front of what is
// read is returned if an edition of it is read. Records of open transactions are left out.
func (d *DeadLetters) newest(ctx context.Context, filter DeadLetterFilter, o newestOptions) (found []console.Letter, looked int64, err error) {
	t, err := d.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer t.close()
	for {
		t.bytesLeft = o.bytes
		found, whole, err := t.newest(ctx, filter, o)
		switch {
		case errors.Is(err, errLarge) && o.records > int64(t.info.Partitions):
			o.records /= 8
		case err != nil:
			return nil, 0, err
		case whole:
			return found, 0, nil
		default:
			return found, o.records, nil
		}
	}
}

// newest reads the end of the topic once. whole says whether that was all of it.
func (t *letterTopic) newest(ctx context.Context, filter DeadLetterFilter, o newestOptions) (found []console.Letter, whole bool, err error) {
	whole = true
	each := max(o.records/int64(max(t.info.Partitions, 1)), 1)
	for p := range t.info.Partitions {
		end, err := t.cluster.StableEnd(ctx, t.info.Name, p)
		if err != nil {
			return nil, false, err
		}
		start, _, err := t.cluster.LogBounds(ctx, t.info.Name, p)
		if err != nil {
			return nil, false, err
		}
		if start < end-each {
			start, whole = end-each, false
		}
		idx, err := t.scan(ctx, p, start, end)
		if err != nil {
			return nil, false, err
		}
		err = t.each(ctx, idx, func(l DeadLetter) error {
			if filter.Matches(&l) {
				found = append(found, shownLetter(&l, o.content))
			}
			if len(found) >= 2*o.most {
				found = latest(found, o.most)
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	return latest(found, o.most), whole, nil
}

// latest returns the dead letters that failed last, the last one first.
func latest(letters []console.Letter, most int) []console.Letter {
	slices.SortFunc(letters, func(a, b console.Letter) int {
		return cmp.Or(b.LastFailure.Compare(a.LastFailure), cmp.Compare(a.At.Partition, b.At.Partition), cmp.Compare(b.At.Offset, a.At.Offset))
	})
	most = min(len(letters), most)
	clear(letters[most:]) // their contents are not kept
	return letters[:most]
}
