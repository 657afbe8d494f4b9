-- +goose NO TRANSACTION
-- +goose Up
-- One row a published version. document is the plan as this package writes
-- it, source the document it was imported from; both compressed, so that a
-- stadium fits into one packet.
CREATE TABLE IF NOT EXISTS seat_plan (
    hall_id    BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    name       TEXT NOT NULL,
    document   LONGBLOB NOT NULL,
    source     LONGBLOB NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (hall_id, version),
    CONSTRAINT fk_seat_plan_hall FOREIGN KEY (hall_id) REFERENCES hall (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS seat_plan;
