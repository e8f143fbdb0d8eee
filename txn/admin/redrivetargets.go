package admin

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/onceward/onceward/txn/internal/broker"
)

// targets are the topics that are written to. The client asks for their limits from goroutines of
// its own.
type targets struct {
	sync.Mutex
	// known has nil for one that does not exist; what it points to does not change.
	known map[string]*broker.TopicInfo
}

func (t *targets) get(name string) (info *broker.TopicInfo, known bool) {
	t.Lock()
	defer t.Unlock()
	info, known = t.known[name]
	return info, known
}

func (t *targets) set(name string, info *broker.TopicInfo) {
	t.Lock()
	defer t.Unlock()
	if t.known == nil {
		t.known = map[string]*broker.TopicInfo{}
	}
	t.known[name] = info
}

// numberOf returns a setting of a topic, 0 if it is not known.
func numberOf(info *broker.TopicInfo, setting string) int64 {
	n, err := strconv.ParseInt(info.Settings[setting].Value, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (r *redrive) targetTopic(ctx context.Context, name string) (*broker.TopicInfo, error) {
	if info, known := r.targets.get(name); known {
		return info, nil
	}
	info, err := r.topic(ctx, name)
	if errors.Is(err, errNoTopic) {
		r.targets.set(name, nil)
		return nil, nil //nolint:nilnil // it is known not to exist
	}
	if err != nil {
		return nil, err
	}
	r.targets.set(name, &info)
	return &info, nil
}

// batchBytes is the limit of a batch of a topic. It may be called by any goroutine.
func (r *redrive) batchBytes(topic string) int32 {
	if topic == r.info.Name {
		return int32(numberOf(&r.info, "max.message.bytes"))
	}
	if info, _ := r.targets.get(topic); info != nil {
		return int32(numberOf(info, "max.message.bytes"))
	}
	return 0
}
