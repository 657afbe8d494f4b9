-- +goose NO TRANSACTION
-- +goose Up
-- What reconcilers did. order_no '': none.
CREATE TABLE IF NOT EXISTS reconcile_repair (
    id       BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
    round_id VARBINARY(64) NOT NULL,
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    drift    VARBINARY(64) NOT NULL,
    show_id  BIGINT NOT NULL,
    order_no VARBINARY(26) NOT NULL,
    seats    MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    was      TEXT NOT NULL,
    became   TEXT NOT NULL,
    cause    TEXT NOT NULL,
    counted  BIGINT NOT NULL,
    UNIQUE KEY uk_reconcile_repair_round (round_id, seq),
    KEY ix_reconcile_repair_show (show_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS reconcile_repair;
