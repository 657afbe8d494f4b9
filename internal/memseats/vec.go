package memseats

const (
	pageBits  = 5 // elements of a page
	fanBits   = 5 // pages of a branch
	pageSize  = 1 << pageBits
	pageMask  = pageSize - 1
	fanMask   = 1<<fanBits - 1
	branchLen = pageBits + fanBits // bits of an index below the top
)

type (
	page[T any]   [pageSize]T
	branch[T any] [1 << fanBits]*page[T]
)

// vec is an immutable vector in pages. Elements that were never set are zero;
// it has no length of its own. A copy is cheap and independent: changes go
// through an editor, which leaves everything it has not copied untouched.
type vec[T any] struct {
	top []*branch[T]
}

// get returns element i, which must not be negative.
func (v *vec[T]) get(i int) (x T) {
	b := i >> branchLen
	if b >= len(v.top) || v.top[b] == nil {
		return x
	}
	if p := v.top[b][i>>pageBits&fanMask]; p != nil {
		return p[i&pageMask]
	}
	return x
}

// pages calls visit for every page that was ever written, with the index of
// its first element, in order.
func (v *vec[T]) pages(visit func(first int, p *page[T])) {
	for b, br := range v.top {
		if br == nil {
			continue
		}
		for i, p := range br {
			if p != nil {
				visit(b<<branchLen|i<<pageBits, p)
			}
		}
	}
}

// editor changes a vec in place of its owner. It copies what it touches the
// first time it comes there, and remembers the last page only: elements set
// in order cost one copy a page.
type editor[T any] struct {
	vec    *vec[T]
	copied bool // vec.top is the editor's own
	branch int  // 1 + the branch, 0 for none, that is the editor's own
	page   int  // likewise for the page
}

func edits[T any](v *vec[T]) editor[T] { return editor[T]{vec: v} }

// set changes element i.
func (e *editor[T]) set(i int, x T) {
	b, p := i>>branchLen, i>>pageBits
	if p+1 != e.page {
		e.open(b, p)
	}
	e.vec.top[b][p&fanMask][i&pageMask] = x
}

// open makes the page p of branch b the editor's own.
func (e *editor[T]) open(b, p int) {
	if !e.copied || b >= len(e.vec.top) {
		top := make([]*branch[T], max(b+1, len(e.vec.top)))
		copy(top, e.vec.top)
		e.vec.top, e.copied = top, true
	}
	if b+1 != e.branch {
		br := new(branch[T])
		if old := e.vec.top[b]; old != nil {
			*br = *old
		}
		e.vec.top[b], e.branch = br, b+1
	}
	pg := new(page[T])
	if old := e.vec.top[b][p&fanMask]; old != nil {
		*pg = *old
	}
	e.vec.top[b][p&fanMask], e.page = pg, p+1
}
