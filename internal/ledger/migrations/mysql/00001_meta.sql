-- +goose NO TRANSACTION
-- +goose Up
-- Small things that belong to the database as a whole.
CREATE TABLE IF NOT EXISTS meta (
    name  VARBINARY(64) NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS meta;
