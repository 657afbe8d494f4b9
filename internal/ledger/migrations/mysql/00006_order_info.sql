-- +goose NO TRANSACTION
-- +goose Up
-- Orders and blocks. items: "17:4500,18:4500r" is seat 17 and seat 18, 4500
-- each, seat 18 given back. What is compared is VARBINARY: byte for byte, with
-- no folding of case, accents or trailing spaces in any server's collations. The
-- defaults are those of a new sale, whose statement leaves them out.
CREATE TABLE IF NOT EXISTS order_info (
    no          VARBINARY(26) NOT NULL PRIMARY KEY,
    show_id     BIGINT NOT NULL,
    user_id     VARBINARY(255) NOT NULL,
    okey        VARBINARY(255), -- idempotency key; NULL: none
    fingerprint VARBINARY(64),  -- NULL: all zeroes
    items       MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    amount      BIGINT NOT NULL,
    currency    VARBINARY(16) NOT NULL,
    taken_at    BIGINT NOT NULL,
    deadline    BIGINT NOT NULL,
    cap_at      BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    attempt     INT NOT NULL DEFAULT 1,
    version     BIGINT NOT NULL DEFAULT 1,
    kind        VARBINARY(16) NOT NULL DEFAULT 'sale',
    state       VARBINARY(16) NOT NULL DEFAULT 'pending',
    extended    TINYINT NOT NULL DEFAULT 0,
    device      VARBINARY(64) NOT NULL,
    reason      TEXT NOT NULL,
    UNIQUE KEY uk_order_info_user_key (user_id, okey)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS order_info;
