package simulation

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/processing"
)

// processors is the application of package processing, with its surroundings in this process.
type processors struct {
	plain
	around *processing.Surroundings
	// begun and down are those of the surroundings.
	begun, down bool
}

// Processors has all processors: see package processing, which judges it.
func Processors() (Subject, error) {
	around := processing.NewSurroundings()
	t, err := around.Settings().Topology()
	return &processors{plain: newPlain("processors", t), around: around}, err
}

// Partitioner leaves the choice to the surroundings.
func (s *processors) Partitioner() kgo.Partitioner { return kgo.ManualPartitioner() }

// factShare is the share of the inputs that are facts: others contradict or repeat them, and each
// makes a dozen outputs.
const factShare = 0.15

func (s *processors) Feed(f *Feed, n int, inflight *sync.WaitGroup) error {
	if f.Partitions != processing.Partitions {
		return fmt.Errorf("the pipeline has %d partitions, not %d", processing.Partitions, f.Partitions)
	}
	if !s.begun {
		s.begun = true
		s.around.Begin(f.Rng.Uint64(), time.Now().Add(-processing.Retention/2))
	}
	records := s.around.Facts(1 + int(float64(n)*factShare))
	if f.Rng.IntN(20) == 0 {
		records = append(records, s.around.Switch()...)
	}
	// Each outage is short: a parked record is tried again every 20 ms, and each time is a
	// transaction.
	s.down = !s.down && f.Rng.IntN(10) == 0 || s.down && f.Rng.IntN(2) == 0
	s.around.Break(s.down)
	return s.send(f, records, inflight)
}

// Finish repairs the world.
func (s *processors) Finish(*Feed, *sync.WaitGroup) error {
	s.around.Break(false)
	return nil
}

// Follows are all outputs.
func (s *processors) Follows() []string { return s.around.Outputs() }

func (s *processors) Take(f *Feed, r *kgo.Record) error {
	answers, err := s.around.Take(r)
	if err != nil || len(answers) == 0 {
		return err
	}
	return s.send(f, answers, new(sync.WaitGroup))
}

func (s *processors) Waiting() string {
	if err := s.around.Finished(); err != nil {
		return err.Error()
	}
	return ""
}

func (s *processors) Judge(log map[string][][]*kgo.Record) []string {
	wrong := s.judgeInputs(log, processing.TopicEvents)
	if err := s.around.Judge(log); err != nil {
		wrong = append(wrong, fmt.Sprintf("processors: %v", err))
	}
	return wrong
}
