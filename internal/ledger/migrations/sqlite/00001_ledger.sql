-- Instants are integer microseconds since 1970-01-01T00:00:00Z; 0 is none.
-- Money is an integer in minor units.
-- +goose Up

-- Small things that belong to the database as a whole.
CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE hall (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    zone       TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

-- One row a published version. document is the plan as this package writes
-- it, source the document it was imported from.
CREATE TABLE seat_plan (
    hall_id    INTEGER NOT NULL REFERENCES hall (id),
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    document   BLOB NOT NULL,
    source     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (hall_id, version)
);

-- Every seat id that any version of a hall's plan ever gave. Rows are never
-- deleted, so that no id is given twice.
CREATE TABLE seat (
    hall_id INTEGER NOT NULL REFERENCES hall (id),
    seat_id INTEGER NOT NULL,
    guid    TEXT NOT NULL,
    since   INTEGER NOT NULL,
    PRIMARY KEY (hall_id, seat_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX uk_seat_hall_guid ON seat (hall_id, guid);

CREATE TABLE show (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    hall_id        INTEGER NOT NULL,
    plan_version   INTEGER NOT NULL,
    title          TEXT NOT NULL,
    starts         INTEGER NOT NULL,
    ends           INTEGER NOT NULL,
    sale_from      INTEGER NOT NULL,
    sale_until     INTEGER NOT NULL,
    currency       TEXT NOT NULL,
    prices         TEXT NOT NULL,    -- JSON: category name -> minor units
    limit_per_user INTEGER NOT NULL,
    hold_for       INTEGER NOT NULL, -- microseconds
    hold_cap       INTEGER NOT NULL, -- microseconds
    extend_by      INTEGER NOT NULL, -- microseconds
    status         TEXT NOT NULL,
    partition_no   INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    FOREIGN KEY (hall_id, plan_version) REFERENCES seat_plan (hall_id, version)
);
CREATE INDEX ix_show_starts ON show (starts, id);

-- Orders and blocks. items: "17:4500,18:4500r" is seat 17 and seat 18, 4500
-- each, seat 18 given back.
CREATE TABLE order_info (
    no          TEXT NOT NULL PRIMARY KEY,
    show_id     INTEGER NOT NULL,
    user_id     TEXT NOT NULL,
    okey        TEXT,             -- idempotency key; NULL: none
    fingerprint BLOB,             -- NULL: all zeroes
    items       TEXT NOT NULL,
    amount      INTEGER NOT NULL,
    currency    TEXT NOT NULL,
    taken_at    INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,
    cap_at      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    state       TEXT NOT NULL,
    extended    INTEGER NOT NULL,
    device      TEXT NOT NULL,
    reason      TEXT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX uk_order_info_user_key ON order_info (user_id, okey);
CREATE INDEX ix_order_info_block ON order_info (show_id) WHERE kind = 'block';

-- Active occupancy and nothing else: rows go when a seat is given back.
CREATE TABLE order_seat (
    show_id  INTEGER NOT NULL,
    seat_id  INTEGER NOT NULL,
    order_no TEXT NOT NULL,
    CONSTRAINT uk_order_seat_show_seat PRIMARY KEY (show_id, seat_id)
) WITHOUT ROWID;

-- Append-only. seats NULL: every seat of the order; actor_user and device
-- NULL: the order's own. Most events are a sale's first, and short rows are
-- what they cost.
CREATE TABLE order_event (
    order_no   TEXT NOT NULL,
    version    INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    type       TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    seats      TEXT,
    actor_user TEXT,
    actor_role TEXT NOT NULL,
    trace_id   TEXT,
    span_id    TEXT,
    device     TEXT,
    at         INTEGER NOT NULL,
    PRIMARY KEY (order_no, version)
) WITHOUT ROWID;

-- Events that wait to be published; the event itself is in order_event.
CREATE TABLE outbox (
    id       INTEGER PRIMARY KEY, -- the event's id
    order_no TEXT NOT NULL,
    version  INTEGER NOT NULL
);

CREATE TABLE payment (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    provider   TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    capture_id TEXT,             -- NULL unless captured
    type       TEXT NOT NULL,
    order_no   TEXT NOT NULL,
    amount     INTEGER NOT NULL,
    currency   TEXT NOT NULL,
    event_at   INTEGER NOT NULL, -- as the provider says
    ending     TEXT NOT NULL,
    refund_id  TEXT,             -- of the ending refund
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_payment_provider_event ON payment (provider, event_id);
CREATE UNIQUE INDEX uk_payment_provider_capture ON payment (provider, capture_id);
CREATE INDEX ix_payment_order ON payment (order_no);
CREATE INDEX ix_payment_ending ON payment (ending, id);

CREATE TABLE refund (
    id         TEXT NOT NULL PRIMARY KEY,
    provider   TEXT NOT NULL,
    capture_id TEXT NOT NULL,
    order_no   TEXT NOT NULL,
    amount     INTEGER NOT NULL,
    currency   TEXT NOT NULL,
    reason     TEXT NOT NULL,
    done       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    done_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ix_refund_capture ON refund (provider, capture_id);
CREATE INDEX ix_refund_due ON refund (created_at, id) WHERE done = 0;

-- +goose Down
DROP TABLE refund;
DROP TABLE payment;
DROP TABLE outbox;
DROP TABLE order_event;
DROP TABLE order_seat;
DROP TABLE order_info;
DROP TABLE show;
DROP TABLE seat;
DROP TABLE seat_plan;
DROP TABLE hall;
DROP TABLE meta;
