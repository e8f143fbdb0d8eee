package admin

import (
	"cmp"
	"context"
	"slices"
)

// newestOptions bound what newest reads and keeps.
type newestOptions struct {
	// most is how many dead letters are returned.
	most int
	// records is how many offsets before the end of the topic are read, divided among its partitions.
	records int64
}

// newest returns the dead letters that a filter chooses, the last failure first. It reads the end of
// each partition only, and whole says whether that was all. The editions and marks of a dead letter
// are behind it, so that they are read with it. A dead letter in front of what is read is returned if
// an edition of it is read. Records of open transactions are left out.
func (d *DeadLetters) newest(ctx context.Context, filter DeadLetterFilter, o newestOptions) (found []DeadLetter, whole bool, err error) {
	t, err := d.open(ctx)
	if err != nil {
		return nil, false, err
	}
	defer t.close()
	whole = true
	each := max(o.records/int64(max(t.info.Partitions, 1)), 1)
	for p := range t.info.Partitions {
		end, err := t.cluster.StableEnd(ctx, d.topic, p)
		if err != nil {
			return nil, false, err
		}
		start, _, err := t.cluster.LogBounds(ctx, d.topic, p)
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
				found = append(found, l)
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
func latest(letters []DeadLetter, most int) []DeadLetter {
	slices.SortFunc(letters, func(a, b DeadLetter) int {
		return cmp.Or(b.LastFailure.Compare(a.LastFailure), cmp.Compare(a.Partition, b.Partition), cmp.Compare(b.Offset, a.Offset))
	})
	return letters[:min(len(letters), most)]
}
