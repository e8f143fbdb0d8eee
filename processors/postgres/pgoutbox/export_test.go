package pgoutbox

import "context"

// The points that a test can stop at: with entries locked, after the brokers have answered, after
// the entries were marked, after the COMMIT.
var points = []string{"taken", "published", "marked", "committed"}

// setAt has f called at each point of each batch. Its error is one of the batch.
func (o *Outbox) setAt(f func(ctx context.Context, point string) error) { o.at = f }
