-- +goose NO TRANSACTION
-- +goose Up
-- Active occupancy and nothing else: rows go when a seat is given back. The
-- primary key is what makes a double sale impossible.
CREATE TABLE IF NOT EXISTS order_seat (
    show_id  BIGINT NOT NULL,
    seat_id  INT NOT NULL,
    order_no VARBINARY(26) NOT NULL,
    CONSTRAINT uk_order_seat_show_seat PRIMARY KEY (show_id, seat_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS order_seat;
