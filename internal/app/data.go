package app

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"seatflow"
	"seatflow/internal/auth"
	"seatflow/internal/ledger"
)

// Names in a data folder.
const (
	lockName   = "lock"        // held by the process that uses the folder; the kernel frees it when that dies
	secretName = "secret.key"  // signs tokens and sandbox callbacks; 64 hex digits, mode 0600
	ledgerName = "seatflow.db" // the facts
	serverName = "server.json" // who serves it, for the tools; valid only while the lock is held
	busName    = "bus"         // the embedded bus keeps its streams here; may be deleted
)

// secretLen is the length of a secret in bytes.
const secretLen = 32

// lockWait bounds the wait for the lock: a tool may look at it for a moment.
const (
	lockWait  = time.Second
	lockEvery = 20 * time.Millisecond
)

// InUseError: another process has the data folder.
type InUseError struct {
	Dir string
	PID int    // 0 if unknown
	URL string // "" if it does not serve
}

// Error implements error.
func (e *InUseError) Error() string {
	s := fmt.Sprintf("data folder %s is in use by another process", e.Dir)
	if e.PID != 0 {
		s += fmt.Sprintf(" (pid %d)", e.PID)
	}
	if e.URL != "" {
		s += ", which serves " + e.URL
	}
	return s + "; stop it, or use another folder with --data"
}

// serverInfo is the content of server.json.
type serverInfo struct {
	PID int    `json:"pid"`
	URL string `json:"url"`
}

// Folder is a data folder that this process alone has: its lock and its
// secret.
type Folder struct {
	Dir   string
	First bool // the folder's secret was made just now

	secret []byte
	lock   *flock.Flock
}

// OpenFolder makes a folder if need be and locks it. secretFile, if not empty,
// holds the secret that several nodes share; it is kept in the folder too, for
// the tools. The error is *InUseError when another process has the folder.
func OpenFolder(ctx context.Context, dir, secretFile string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	d := &Folder{Dir: dir, lock: flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))}
	wctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	ok, err := d.lock.TryLockContext(wctx, lockEvery)
	if !ok {
		if err != nil && wctx.Err() == nil {
			return nil, fmt.Errorf("data folder %s: lock: %w", dir, err)
		}
		info := readServerInfo(dir)
		return nil, &InUseError{Dir: dir, PID: info.PID, URL: info.URL}
	}
	if err := d.open(secretFile); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Folder) open(secretFile string) error {
	var err error
	if secretFile == "" {
		d.secret, d.First, err = ensureSecret(d.Dir)
	} else {
		d.secret, d.First, err = shareSecret(d.Dir, secretFile)
	}
	if err != nil {
		return err
	}
	// What a killed predecessor left there is no longer true.
	if err := os.Remove(filepath.Join(d.Dir, serverName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close frees the lock. It may be called twice.
func (d *Folder) Close() error {
	if !d.lock.Locked() {
		return nil
	}
	var errs []error
	if err := os.Remove(filepath.Join(d.Dir, serverName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	// The lock file stays: removing it would let two processes lock two files
	// of the same name.
	errs = append(errs, d.lock.Unlock())
	return errors.Join(errs...)
}

// Data is a data folder that this process alone has, with its ledger.
type Data struct {
	*Folder
	Ledger *ledger.Ledger
}

// OpenData makes a folder if need be, locks it and opens its ledger. The
// error is *InUseError when another process has it.
func OpenData(ctx context.Context, dir string, opts ledger.Options) (*Data, error) {
	folder, err := OpenFolder(ctx, dir, "")
	if err != nil {
		return nil, err
	}
	d := &Data{Folder: folder}
	if d.Ledger, err = ledger.OpenSQLite(ctx, filepath.Join(dir, ledgerName), opts); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return d, nil
}

// Close closes the ledger and frees the lock. It may be called twice.
func (d *Data) Close() error {
	var errs []error
	if d.Ledger != nil {
		errs = append(errs, d.Ledger.Close())
		d.Ledger = nil
	}
	return errors.Join(append(errs, d.Folder.Close())...)
}

func (d *Folder) announce(url string) error {
	body, err := json.Marshal(serverInfo{os.Getpid(), url})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.Dir, serverName), body, 0o600)
}

func readServerInfo(dir string) serverInfo {
	var info serverInfo
	body, err := os.ReadFile(filepath.Join(dir, serverName))
	if err == nil && json.Unmarshal(body, &info) != nil {
		info = serverInfo{}
	}
	return info
}

// DataServer returns the URL of the server that runs on a data folder.
func DataServer(dir string) (url string, ok bool) {
	info := readServerInfo(dir)
	if info.URL == "" {
		return "", false
	}
	lock := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))
	if free, err := lock.TryRLock(); err != nil || free {
		lock.Unlock()
		return "", false
	}
	return info.URL, true
}

// MintToken makes a token from a data folder's secret, so that whoever may
// read the folder may act on its server.
func MintToken(dir string, user seatflow.UserID, role seatflow.Role, ttl time.Duration) (string, error) {
	secret, err := readSecret(dir)
	if err != nil {
		return "", err
	}
	tokens, err := auth.NewTokens(derive(secret, "tokens"), seatflow.WallClock{})
	if err != nil {
		return "", err
	}
	token, _, err := tokens.Mint(user, role, ttl)
	return token, err
}

func readSecret(dir string) ([]byte, error) {
	secret, err := readSecretFile(filepath.Join(dir, secretName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data folder %s has no secret: no server has run on it yet", dir)
	}
	return secret, err
}

func readSecretFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != secretLen {
		return nil, fmt.Errorf("%s is not %d hex digits", name, 2*secretLen)
	}
	return secret, nil
}

// shareSecret reads the secret that nodes share and keeps it in the folder.
func shareSecret(dir, file string) (secret []byte, made bool, err error) {
	if secret, err = readSecretFile(file); err != nil {
		return nil, false, fmt.Errorf("secretFile: %w", err)
	}
	name := filepath.Join(dir, secretName)
	switch own, err := readSecretFile(name); {
	case errors.Is(err, fs.ErrNotExist):
		return secret, true, writeSecret(name, secret)
	case err != nil:
		return nil, false, err
	case !hmac.Equal(own, secret):
		return nil, false, fmt.Errorf("secretFile %s is not the secret that %s was used with; tokens would stop working: remove %s to change it", file, dir, name)
	}
	return secret, false, nil
}

// ensureSecret reads the folder's secret, or makes one that is on disk before
// anything is signed with it.
func ensureSecret(dir string) (secret []byte, made bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, secretName)); err == nil {
		secret, err = readSecret(dir)
		return secret, false, err
	}
	secret = make([]byte, secretLen)
	rand.Read(secret)
	return secret, true, writeSecret(filepath.Join(dir, secretName), secret)
}

// writeSecret writes a secret that is on disk, whole, before it is used.
func writeSecret(name string, secret []byte) error {
	tmp := name + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(secret) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, name)
	}
	return err
}

// derive makes one secret per purpose out of the folder's.
func derive(secret []byte, purpose string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("seatflow/" + purpose))
	return m.Sum(nil)
}

// logNothing is the log of tools that print for themselves.
var logNothing = slog.New(slog.DiscardHandler)
