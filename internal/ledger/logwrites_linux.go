package ledger

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite hands each page of its log to the system in two writes, 24 bytes and
// then the page, so that a commit of a hundred orders makes hundreds of system
// calls: more than a quarter of what an order costs. This file gathers them. A
// VFS named gatheredVFS is the system's own but for the files that are opened
// as a log: there, writes that follow one another are kept in a buffer and
// passed on as one, at the latest before anything else is asked of the file.
//
// It rests on synchronous=FULL. There a commit syncs its log before it becomes
// visible to other connections, so what lies in the buffer belongs to a
// transaction that nobody else can see and that nobody was told of. A process
// that dies with it, or a write that fails when it is passed on, is to SQLite
// what a failed write always was.

const gatheredVFS = "seatflow-gathered"

// gatherMost is how much is passed on at once; the system's VFS takes less
// than 128 KB.
const gatherMost = 120 << 10

// gathered is the state of one open log: whatever its buffer holds follows on
// from offset. A file belongs to one connection, which is used by one
// goroutine at a time.
type gathered struct {
	methods *sqlite3.Tsqlite3_io_methods // the system's
	buffer  uintptr                      // gatherMost bytes, not Go's
	held    int
	offset  int64
}

// gathering is what the methods below find their files by: SQLite knows them
// as functions only.
var gathering struct {
	register sync.Once
	err      error
	open     func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 // the system's

	mu     sync.RWMutex
	files  map[uintptr]*gathered
	tables map[uintptr]uintptr // the system's methods → ours
}

// gatherLogWrites registers the VFS and returns its name, or "" where it is
// not to be had and the system's own does the same slower.
func gatherLogWrites() string {
	g := &gathering
	g.register.Do(func() {
		tls := libc.NewTLS()
		defer tls.Close()
		if rc := sqlite3.Xsqlite3_initialize(tls); rc != sqlite3.SQLITE_OK {
			g.err = fmt.Errorf("ledger: sqlite: %d", rc)
			return
		}
		system := sqlite3.Xsqlite3_vfs_find(tls, 0)
		name, err := libc.CString(gatheredVFS)
		ours := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
		if system == 0 || ours == 0 || err != nil {
			g.err = errors.Join(errors.New("ledger: no memory for a file system"), err)
			return
		}
		g.files, g.tables = map[uintptr]*gathered{}, map[uintptr]uintptr{}
		g.open = callable[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](at[sqlite3.Tsqlite3_vfs](system).FxOpen)
		*at[sqlite3.Tsqlite3_vfs](ours) = *at[sqlite3.Tsqlite3_vfs](system)
		at[sqlite3.Tsqlite3_vfs](ours).FzName = name
		at[sqlite3.Tsqlite3_vfs](ours).FxOpen = entry(gatherOpen)
		if rc := sqlite3.Xsqlite3_vfs_register(tls, ours, 0); rc != sqlite3.SQLITE_OK {
			g.err = fmt.Errorf("ledger: register a file system: %d", rc)
		}
	})
	if g.err != nil {
		return ""
	}
	return gatheredVFS
}

// at is what lies at an address that SQLite gave: its memory is not Go's and
// does not move.
func at[T any](address uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&address))) }

// Functions lie in SQLite's tables as Go holds them: a word each.

func entry[F any](f F) uintptr        { return *(*uintptr)(unsafe.Pointer(&f)) }
func callable[F any](entry uintptr) F { return *(*F)(unsafe.Pointer(&entry)) }

func gatherOpen(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	g := &gathering
	rc := g.open(tls, vfs, name, file, flags, outFlags)
	if rc != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_WAL == 0 {
		return rc
	}
	buffer := libc.Xmalloc(tls, gatherMost)
	if buffer == 0 {
		return rc // works as it is
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	opened := at[sqlite3.Tsqlite3_file](file)
	table := g.tables[opened.FpMethods]
	if table == 0 {
		if table = libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{}))); table == 0 {
			libc.Xfree(tls, buffer)
			return rc
		}
		m := at[sqlite3.Tsqlite3_io_methods](table)
		*m = *at[sqlite3.Tsqlite3_io_methods](opened.FpMethods)
		m.FxWrite, m.FxRead, m.FxSync = entry(gatherWrite), entry(gatherRead), entry(gatherSync)
		m.FxTruncate, m.FxFileSize, m.FxFileControl = entry(gatherTruncate), entry(gatherFileSize), entry(gatherFileControl)
		m.FxClose = entry(gatherClose)
		g.tables[opened.FpMethods] = table
	}
	g.files[file] = &gathered{methods: at[sqlite3.Tsqlite3_io_methods](opened.FpMethods), buffer: buffer}
	opened.FpMethods = table
	return rc
}

func gatheredFile(file uintptr) *gathered {
	gathering.mu.RLock()
	defer gathering.mu.RUnlock()
	return gathering.files[file]
}

func gatherWrite(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	f := gatheredFile(file)
	if offset != f.offset+int64(f.held) || f.held+int(n) > gatherMost {
		if rc := f.pass(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		f.offset = offset
	}
	if int(n) > gatherMost { // no page is that long
		return f.write(tls, file, data, n, offset)
	}
	copy(unsafe.Slice(at[byte](f.buffer), gatherMost)[f.held:], unsafe.Slice(at[byte](data), n))
	f.held += int(n)
	return sqlite3.SQLITE_OK
}

// pass hands on what is held. What cannot be written is dropped: SQLite is
// told and undoes the transaction that it belongs to.
func (f *gathered) pass(tls *libc.TLS, file uintptr) int32 {
	if f.held == 0 {
		return sqlite3.SQLITE_OK
	}
	n := f.held
	f.held = 0
	rc := f.write(tls, file, f.buffer, int32(n), f.offset)
	f.offset += int64(n)
	return rc
}

func (f *gathered) write(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	write := callable[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](f.methods.FxWrite)
	return write(tls, file, data, n, offset)
}

func gatherRead(tls *libc.TLS, file, to uintptr, n int32, offset int64) int32 {
	f := gatheredFile(file)
	if rc := f.pass(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return callable[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](f.methods.FxRead)(tls, file, to, n, offset)
}

func gatherSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := gatheredFile(file)
	if rc := f.pass(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return callable[func(*libc.TLS, uintptr, int32) int32](f.methods.FxSync)(tls, file, flags)
}

func gatherTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	f := gatheredFile(file)
	if rc := f.pass(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return callable[func(*libc.TLS, uintptr, int64) int32](f.methods.FxTruncate)(tls, file, size)
}

func gatherFileSize(tls *libc.TLS, file, size uintptr) int32 {
	f := gatheredFile(file)
	if rc := f.pass(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return callable[func(*libc.TLS, uintptr, uintptr) int32](f.methods.FxFileSize)(tls, file, size)
}

func gatherFileControl(tls *libc.TLS, file uintptr, what int32, arg uintptr) int32 {
	f := gatheredFile(file)
	if rc := f.pass(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return callable[func(*libc.TLS, uintptr, int32, uintptr) int32](f.methods.FxFileControl)(tls, file, what, arg)
}

// gatherClose drops what was never synced: no commit is waiting for it.
func gatherClose(tls *libc.TLS, file uintptr) int32 {
	g := &gathering
	g.mu.Lock()
	f := g.files[file]
	delete(g.files, file)
	g.mu.Unlock()
	libc.Xfree(tls, f.buffer)
	return callable[func(*libc.TLS, uintptr) int32](f.methods.FxClose)(tls, file)
}
