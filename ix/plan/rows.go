// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"runtime"
	"sync"

	"weir/ix/choose"
)

// row is a prefix with its paths.
type row struct {
	prefix netip.Prefix
	paths  []choose.Path
	weight uint64 // traffic; 1 without traffic
	// root is the shortest prefix that covers prefix, prefix itself if there is none. cover has the
	// paths of the longest one; nil for none.
	root  netip.Prefix
	cover []choose.Path
}

const batchRows = 256

// batch is rows with their paths in one array, reused to keep the heap small.
type batch struct {
	rows  []row
	paths []choose.Path
}

// take returns a copy of paths within the batch.
func (b *batch) take(paths []choose.Path) []choose.Path {
	start := len(b.paths)
	b.paths = append(b.paths, paths...)
	return b.paths[start:len(b.paths):len(b.paths)]
}

// each calls work with all rows, from several goroutines with numbers below workers. A row is valid
// during the call. Without covers, row.cover is nil.
func (t *Table) each(workers int, covers bool, weight func(netip.Prefix) uint64, work func(worker int, r *row)) {
	full, empty := make(chan *batch, 2*workers), make(chan *batch, 4*workers)
	for range 4 * workers {
		empty <- new(batch)
	}
	var done sync.WaitGroup
	for worker := range workers {
		done.Go(func() {
			for b := range full {
				for i := range b.rows {
					work(worker, &b.rows[i])
				}
				empty <- b
			}
		})
	}
	t.fill(full, empty, covers, weight)
	close(full)
	done.Wait()
}

// above is the prefixes that cover the current one, shortest first. Its slices are reused.
type above struct {
	rows  []row
	depth int
}

// pop removes the prefixes that do not cover p.
func (a *above) pop(p netip.Prefix) {
	for a.depth > 0 && !a.rows[a.depth-1].prefix.Contains(p.Addr()) {
		a.depth--
	}
}

func (a *above) push(r *row) {
	if a.depth == len(a.rows) {
		a.rows = append(a.rows, row{})
	}
	top := &a.rows[a.depth]
	top.prefix, top.paths = r.prefix, append(top.paths[:0], r.paths...)
	a.depth++
}

// fill puts all rows in batches.
func (t *Table) fill(full, empty chan *batch, covers bool, weight func(netip.Prefix) uint64) {
	var stack above
	b := <-empty
	for prefix, paths := range t.RIB.All {
		if len(b.rows) == batchRows {
			full <- b
			b = <-empty
			b.rows, b.paths = b.rows[:0], b.paths[:0]
		}
		start := len(b.paths)
		b.paths = t.paths(paths, b.paths)
		r := row{prefix: prefix, paths: b.paths[start:len(b.paths):len(b.paths)], weight: weight(prefix), root: prefix}
		if covers {
			stack.pop(prefix)
			if stack.depth > 0 {
				r.root, r.cover = stack.rows[0].prefix, b.take(stack.rows[stack.depth-1].paths)
			}
			if prefix.Bits() > 0 { // as a cover, a default route would give all prefixes one hash
				stack.push(&r)
			}
		}
		b.rows = append(b.rows, r)
	}
	full <- b
}

// workers is the number of goroutines of a plan.
func workers() int { return runtime.GOMAXPROCS(0) }
