package httpapi

import "sync"

// buffer is a byte slice that is used again.
type buffer struct{ b []byte }

// bufferPool keeps buffers for bodies in both directions. Large ones are left
// to the collector, so that one big answer does not stay for ever.
type bufferPool struct{ pool sync.Pool }

const bufferKeep = 64 << 10

var buffers = bufferPool{sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 2048)} }}}

func (p *bufferPool) get() *buffer { return p.pool.Get().(*buffer) }

func (p *bufferPool) put(b *buffer) {
	if cap(b.b) > bufferKeep {
		return
	}
	b.b = b.b[:0]
	p.pool.Put(b)
}
