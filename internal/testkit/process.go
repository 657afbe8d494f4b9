package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// errPortTaken says that a server did not start because of somebody else on
// its port.
var errPortTaken = errors.New("port is taken")

// process is one server of its own process. It keeps no goroutine: the ends
// of processes are looked up, not waited for.
type process struct {
	name string // for messages
	path string
	args []string
	dir  string // its working directory, by which the watchdog knows it
	log  string // what it prints, appended over restarts

	mu  sync.Mutex
	pid int // 0 when it does not run
}

// start runs the program and waits until ready returns nil. A server that
// ends early is not waited for.
func (p *process) start(ready func() error) error {
	if err := p.spawn(); err != nil {
		return err
	}
	from := p.logSize()
	err := await(p.name, func() error {
		err := ready()
		if err != nil && !p.running() {
			return fmt.Errorf("%s ended early: %w", p.name, errGaveUp)
		}
		return err
	})
	if err != nil {
		out := p.tail(from)
		p.kill()
		if portTaken(out) {
			return fmt.Errorf("%s: %w", p.name, errPortTaken)
		}
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// restart is start on the ports of before: when one is taken for a moment, it
// tries again.
func (p *process) restart(ready func() error) error {
	return await(p.name+" on its port again", func() error {
		err := p.start(ready)
		if err != nil && !errors.Is(err, errPortTaken) {
			return errors.Join(err, errGaveUp)
		}
		return err
	})
}

func portTaken(log string) bool {
	log = strings.ToLower(log)
	return strings.Contains(log, "address already in use") || strings.Contains(log, "already in use")
}

func (p *process) spawn() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 && !p.reap(syscall.WNOHANG) {
		return fmt.Errorf("%s runs already", p.name)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	proc, err := os.StartProcess(p.path, append([]string{p.path}, p.args...), &os.ProcAttr{
		Dir: p.dir, Env: os.Environ(), Files: []*os.File{null, out, out},
		// A group of its own keeps Ctrl-C in the terminal from it; the
		// watchdog ends it.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.pid = proc.Pid
	return proc.Release()
}

// reap collects the process when it has ended; the caller holds the lock.
func (p *process) reap(options int) bool {
	if p.pid == 0 {
		return true
	}
	for {
		got, err := syscall.Wait4(p.pid, nil, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || got == p.pid:
			p.pid = 0
			return true
		default:
			return false
		}
	}
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.reap(syscall.WNOHANG)
}

// id is the process id, 0 when it does not run.
func (p *process) id() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reap(syscall.WNOHANG)
	return p.pid
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		_ = syscall.Kill(p.pid, s) // it may have ended just now
	}
}

// pause stops the process and returns when it stands: the kernel takes the
// signal note first, and the process may answer for a moment more.
func (p *process) pause() {
	p.signal(syscall.SIGSTOP)
	_ = await(p.name+" to stand", func() error {
		pid := p.id()
		if pid != 0 && processState(pid) != "T" {
			return errors.New("it still runs")
		}
		return nil
	})
}

func (p *process) resume() { p.signal(syscall.SIGCONT) }

// processState is the letter that the kernel shows for a process's state: T is
// stopped.
func processState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name before may hold anything, brackets too.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

// kill ends the process as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		p.reap(0)
	}
}

// stop asks the process to end and returns when it is gone.
func (p *process) stop() {
	p.resume()
	p.signal(syscall.SIGTERM)
	_ = await("the end of "+p.name, func() error {
		if p.running() {
			return errors.New("it still runs")
		}
		return nil
	})
	p.kill()
}

func (p *process) logSize() int64 {
	if s, err := os.Stat(p.log); err == nil {
		return s.Size()
	}
	return 0
}

// tail is the last of what the process printed since an offset.
func (p *process) tail(from int64) string {
	const most = 16 << 10
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if size := p.logSize(); size-from > most {
		from = size - most
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text))
}

// showOnFailure prints what the process says from now on when the test fails.
func (p *process) showOnFailure(t testing.TB) {
	from := p.logSize()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s printed:\n%s", p.name, p.tail(from))
		}
	})
}

// endWith ends the process with the test, unless it is to be kept.
func (p *process) endWith(t testing.TB) {
	t.Cleanup(func() {
		if keep() {
			t.Logf("%s is kept: process %d, folder %s, command %s %s", p.name, p.id(), p.dir, p.path, strings.Join(p.args, " "))
			return
		}
		p.kill()
		if b, err := base(); err == nil && strings.HasPrefix(p.dir, b+string(filepath.Separator)) {
			_ = os.RemoveAll(p.dir) // the watchdog removes what is left
		}
	})
}

func keep() bool { return os.Getenv(keepBackends) == "1" }

// watchdog ends servers that a test process left behind, however that ended:
// it reads folders from its standard input until the test process is gone,
// then kills every process that works in one of them and removes the first,
// the base of this test process. A server is found by its working directory:
// numbers of processes are given out again, folders of ours are not.
const watchdog = `
while IFS= read -r dir; do set -- "$@" "$dir"; done
round=0
while [ -e "$1" ] && [ $round -lt 100 ]; do
  ls -dl /proc/[0-9]*/cwd 2>/dev/null | while IFS= read -r line; do
    for dir in "$@"; do
      case "$line" in
        *" -> $dir" | *" -> $dir/"* | *" -> $dir (deleted)") pid=${line#*/proc/}; kill -9 "${pid%%/*}";;
      esac
    done
  done
  rm -rf "$1" # fails while one that was killed just now still writes
  round=$((round + 1))
  [ ! -e "$1" ] || sleep 0.1
done
`

var dog struct {
	sync.Mutex
	pipe *os.File
	dirs map[string]bool
}

// watch tells the watchdog of a folder, and starts it with the first.
func watch(dir string, first bool) error {
	if keep() {
		return nil
	}
	dog.Lock()
	defer dog.Unlock()
	if first {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer func() { _ = null.Close() }()
		proc, err := os.StartProcess("/bin/sh", []string{"sh", "-c", watchdog}, &os.ProcAttr{
			Dir: "/", Files: []*os.File{r, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return fmt.Errorf("start the watchdog: %w", err)
		}
		if err := proc.Release(); err != nil {
			return err
		}
		dog.pipe, dog.dirs = w, map[string]bool{}
	}
	if dog.pipe == nil || dog.dirs[dir] {
		return nil
	}
	dog.dirs[dir] = true
	_, err := fmt.Fprintln(dog.pipe, dir)
	return err
}
