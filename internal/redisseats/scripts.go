package redisseats

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// script says how a script is called. The table is held against the headers
// of the scripts by a test.
type script struct {
	name string
	keys int  // how many KEYS it takes, at least
	args int  // how many ARGV it takes, at least
	more bool // whether more arguments may follow
	// moreKeys is whether more keys may follow.
	moreKeys bool
	with     string // the library before it: "", "common" or "common free"
}

const (
	scriptHold = iota
	scriptExtend
	scriptSell
	scriptRelease
	scriptUnsell
	scriptBlock
	scriptUnblock
	scriptDue
	scriptClaim
	scriptChanges
	scriptSnapshot
	scriptRebuild
	scriptRepair
	scriptRecount
	scriptLifetime
	scriptRevision
	scriptIdentity
	scriptCount
)

// scripts is every script that is loaded for an incarnation of a server.
var scripts = [scriptCount]script{
	scriptHold:     {name: "hold", keys: 8, args: 9, more: true},
	scriptExtend:   {name: "extend", keys: 7, args: 4, with: "common"},
	scriptSell:     {name: "sell", keys: 7, args: 3, with: "common"},
	scriptRelease:  {name: "release", keys: 7, args: 4, more: true, with: "common free"},
	scriptUnsell:   {name: "unsell", keys: 7, args: 4, more: true, with: "common free"},
	scriptBlock:    {name: "block", keys: 6, args: 3, more: true, with: "common"},
	scriptUnblock:  {name: "unblock", keys: 7, args: 4, more: true, with: "common free"},
	scriptDue:      {name: "due", keys: 1, args: 1},
	scriptClaim:    {name: "claim", keys: 1, moreKeys: true, args: 1, more: true},
	scriptChanges:  {name: "changes", keys: 1, args: 4},
	scriptSnapshot: {name: "snapshot", keys: 5, args: 3, with: "common"},
	scriptRebuild:  {name: "rebuild", keys: 8, args: 6, more: true},
	scriptRepair:   {name: "repair", keys: 7, args: 3, more: true, with: "common"},
	scriptRecount:  {name: "recount", keys: 6, args: 3, with: "common"},
	scriptLifetime: {name: "lifetime", keys: 7, args: 1},
	scriptRevision: {name: "revision", keys: 1, args: 1},
	scriptIdentity: {name: "identity", keys: 1, args: 0},
}

// plainScripts are run without an identity.
var plainScripts = map[string]script{
	"server":  {name: "server", keys: 1, args: 0},
	"attempt": {name: "attempt", keys: 1, args: 2},
}

// fakeClock stands in the place of the server's clock in tests: the time is
// the last argument of every call.
const (
	serverClock = "local time = redis.call('TIME') local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000"
	fakeClock   = "local now = tonumber(table.remove(ARGV))"
)

// prelude is the line that stands before every script: what it must know and
// is not told with each call. The identity in the text makes the text's digest
// another one for every incarnation of a server.
func (s *Store) prelude(identity string) string {
	trim, clock := "~", serverClock
	if s.kept < exactly { // a rough trim drops whole nodes of the stream
		trim = "="
	}
	if s.clock != nil {
		clock = fakeClock
	}
	return fmt.Sprintf("local identity, kept, trim = '%s', %d, '%s' %s", identity, s.kept, trim, clock)
}

// exactly is below which number of kept changes the stream is trimmed to just
// that many; above, a node of the stream more is no matter.
const exactly = 1000

// text puts a script together: its first line, the prelude, the libraries and
// the rest.
func (sc *script) text(prelude string) string {
	first, rest, _ := strings.Cut(source(sc.name), "\n")
	var b strings.Builder
	b.WriteString(first + "\n" + prelude + "\n")
	for _, library := range strings.Fields(sc.with) {
		b.WriteString(source(library))
	}
	b.WriteString(rest)
	return b.String()
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil { // the folder is embedded whole; a test reads every name in the table
		return ""
	}
	return string(text)
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
