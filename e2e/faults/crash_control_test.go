//go:build unix

package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// scenes is in how many scenes an application is broken at most until it shows: the round that the
// kill meets can be one of groups alone, in which nothing is broken.
const scenes = 5

// TestTheCheckFindsLossAndDuplicates breaks the application: it works outside of its transactions,
// and a kill has to show.
func TestTheCheckFindsLossAndDuplicates(t *testing.T) {
	cluster.SkipWithout(t, cluster.KindVirtual)
	says := map[broken]string{
		countInMemory: `is "1 i`, // instead of a higher number
		dedupeInFile:  "want",    // the input that follows the lost ones
	}
	all := []broken{whole, countInMemory, dedupeInFile}
	name := func(broken broken) string { return "broken=" + string(broken) }
	killed := func(t *testing.T, broken broken) (found error) {
		cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
			s := newCrashScene(t, c)
			s.settings.Broken = broken
			p := s.startArmed(s.settings, "offsets-before=kill,skip=5", "failpoint offsets-before kill")
			s.feedUntil(closed(p.hits[0]), "offsets-before", p.Alive)
			s.settings.StateDir = p.Killed()
			l := s.start("the life after", s.settings)
			s.feed(batch)
			s.committed(l)
			l.End()
			found = s.difference()
		})
		return found
	}
	cluster.Cells(t, len(all), all, name, func(t *testing.T, broken broken) {
		if broken == whole {
			if err := killed(t, broken); err != nil {
				t.Errorf("the application that is not broken: %v", err)
			}
			return
		}
		found := false
		for n := 1; n <= scenes && !found; n++ {
			t.Run("scene="+strconv.Itoa(n), func(t *testing.T) {
				err := killed(t, broken)
				found = err != nil
				if found && !strings.Contains(err.Error(), says[broken]) {
					t.Errorf("the check found %v, want something with %q", err, says[broken])
				}
			})
		}
		if !found {
			t.Errorf("the check found nothing in %d scenes", scenes)
		}
	})
}

// committed waits until every input is behind a committed position, whatever became of it, and so
// are the groups' records.
func (s *crashScene) committed(l *instance.App) {
	s.t.Helper()
	in, again := s.settings.Prefix+inTopic, s.settings.Application+"-groups-repartition"
	await(s.t, s.patience, "the commit of all inputs", func() error {
		for _, topic := range []string{in, again} {
			// Behind the last record there may be a marker, which moves the position only with the
			// next record.
			records, err := s.cluster.ReadAll(s.t.Context(), topic)
			if err != nil {
				s.t.Fatal(err)
			}
			commits, err := s.cluster.CommittedOffsets(s.t.Context(), s.settings.Application, topic)
			if err != nil {
				s.t.Fatal(err)
			}
			for p, rs := range records {
				if len(rs) > 0 && commits[topic][p].Offset <= rs[len(rs)-1].Offset {
					if err := l.Alive(); err != nil {
						s.t.Fatal(err)
					}
					return fmt.Errorf("partition %d of %s is committed to %d", p, topic, commits[topic][p].Offset)
				}
			}
		}
		return nil
	})
}
