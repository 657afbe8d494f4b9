-- What reconcilers did, and how far they have come over the shows.
-- +goose Up

CREATE TABLE reconcile_repair (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    round_id  TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    drift     TEXT NOT NULL,
    show_id   INTEGER NOT NULL,
    order_no  TEXT NOT NULL, -- '': none
    seats     TEXT NOT NULL,
    was       TEXT NOT NULL,
    became    TEXT NOT NULL,
    cause     TEXT NOT NULL,
    counted   INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_reconcile_repair_round ON reconcile_repair (round_id, seq);
CREATE INDEX ix_reconcile_repair_show ON reconcile_repair (show_id, id);

-- One row, of id 1.
CREATE TABLE reconcile_rotation (
    id         INTEGER PRIMARY KEY,
    after_show INTEGER NOT NULL,
    began      INTEGER NOT NULL,
    lap_before INTEGER NOT NULL,
    version    INTEGER NOT NULL
);
INSERT INTO reconcile_rotation (id, after_show, began, lap_before, version) VALUES (1, 0, 0, 0, 0);

-- +goose Down
DROP TABLE reconcile_rotation;
DROP TABLE reconcile_repair;
