-- +goose NO TRANSACTION
-- +goose Up
-- Every seat id that any version of a hall's plan ever gave. Rows are never
-- deleted, so that no id is given twice.
CREATE TABLE IF NOT EXISTS seat (
    hall_id BIGINT NOT NULL,
    seat_id INT NOT NULL,
    guid    VARBINARY(512) NOT NULL,
    since   BIGINT NOT NULL,
    PRIMARY KEY (hall_id, seat_id),
    UNIQUE KEY uk_seat_hall_guid (hall_id, guid),
    CONSTRAINT fk_seat_hall FOREIGN KEY (hall_id) REFERENCES hall (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS seat;
