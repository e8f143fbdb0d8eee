-- An entry whose retry_at is infinity is held: an earlier one of its aggregate cannot be published.
-- Relays do not look at held entries until one of their aggregate is published or quarantined.

DROP INDEX onceward.outbox_again;
DROP INDEX onceward.outbox_failing;
CREATE INDEX outbox_again ON onceward.outbox (outbox, retry_at) WHERE status = 'PENDING' AND retry_at < 'infinity';
CREATE INDEX outbox_held ON onceward.outbox (outbox, aggregate, entry) WHERE status = 'PENDING' AND retry_at = 'infinity';

-- The addition keeps the planner from reading the primary key in its order instead, past all entries that are held or published: statistics from
-- before they were would let it.
CREATE INDEX outbox_fresh ON onceward.outbox (outbox, (entry + 0)) WHERE status = 'PENDING' AND retry_at IS NULL;
