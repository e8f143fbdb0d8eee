package dispatch

import "sync"

// pauseReason is why a partition is not fetched.
type pauseReason uint8

const (
	// queueFull: the task holds as much as it may.
	queueFull pauseReason = 1 << iota
	// restoring: the task is not open yet.
	restoring
	// retrying: the task waits for a record's next attempt.
	retrying
	// taskHalted: the task has stopped and waits for an operator.
	taskHalted
)

// pauses keeps the set of reasons for every partition: it is fetched when its set is empty. The
// client's pausing is a single switch that survives a rebalance, so reasons are cleared when a
// partition goes and set before the assigned callback returns.
type pauses struct {
	// pause and resume work the client's switch. They are called under the lock, in the order of
	// the changes, and must not block.
	pause, resume func(topic string, partition int32)

	mu      sync.Mutex
	reasons map[Input]pauseReason
}

func newPauses(pause, resume func(topic string, partition int32)) *pauses {
	return &pauses{pause: pause, resume: resume, reasons: map[Input]pauseReason{}}
}

// set adds a reason.
func (p *pauses) set(topic string, partition int32, why pauseReason) {
	key := Input{topic, partition}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.reasons[key]
	p.reasons[key] = before | why
	if before == 0 {
		p.pause(topic, partition)
	}
}

// clear takes a reason away.
func (p *pauses) clear(topic string, partition int32, why pauseReason) {
	key := Input{topic, partition}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.reasons[key]
	if before&why == 0 {
		return
	}
	if after := before &^ why; after != 0 {
		p.reasons[key] = after
		return
	}
	delete(p.reasons, key)
	p.resume(topic, partition)
}

// forget drops every reason of a partition that was given up.
func (p *pauses) forget(topic string, partition int32) {
	key := Input{topic, partition}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reasons[key] != 0 {
		delete(p.reasons, key)
		p.resume(topic, partition)
	}
}

// count returns how many partitions are paused for each reason; one may count several times.
func (p *pauses) count() map[pauseReason]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[pauseReason]int{}
	for _, set := range p.reasons {
		for why := queueFull; why <= taskHalted; why <<= 1 {
			if set&why != 0 {
				out[why]++
			}
		}
	}
	return out
}
