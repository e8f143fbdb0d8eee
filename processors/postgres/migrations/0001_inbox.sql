CREATE TABLE onceward.inbox (
    service      text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    outcome      smallint NOT NULL, -- 1 claimed, 2 repeated, 3 disputed
    event_type   text NOT NULL,
    subject      text NOT NULL,
    payload      bytea,             -- SHA-256, null where none was given
    business_key text COLLATE "C",  -- of rows that were claimed
    first_id     text COLLATE "C",  -- of rows that were not: who had the business key
    marked_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (service, event_id)
);

CREATE UNIQUE INDEX inbox_business_key ON onceward.inbox (service, business_key) WHERE business_key IS NOT NULL;

-- Marks arrive in the order of this index, so that an insert touches its last page.
CREATE INDEX inbox_marked_at ON onceward.inbox (service, marked_at);

CREATE TABLE onceward.inbox_archive (
    LIKE onceward.inbox,
    archived_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX inbox_archive_event_id ON onceward.inbox_archive (service, event_id);
