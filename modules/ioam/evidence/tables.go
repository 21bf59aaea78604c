// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"time"

	"weir/modules/ioam/collect"
	"weir/record"
	"weir/record/hist"
)

// MaxRows is the maximum number of rows of a table; the samples hold all.
const MaxRows = 100

// rest returns the note about omitted rows of a table.
func rest(n int) string {
	if n <= MaxRows {
		return ""
	}
	return fmt.Sprintf("and %d more", n-MaxRows)
}

// times returns the median and the 99th percentile of a histogram of nanoseconds.
func times(h *hist.Histogram) []string {
	if h.Count() == 0 {
		return []string{"", ""}
	}
	return []string{collect.Duration(h.Quantile(0.5)).String(), collect.Duration(h.Quantile(0.99)).String()}
}

func pathTable(paths []*collect.Path) record.Table {
	t := record.Table{Title: "Paths", Columns: []string{"namespace", "path", "packets", "from first to last node, median", "p99"}, Note: rest(len(paths))}
	for _, p := range paths[:min(len(paths), MaxRows)] {
		t.Rows = append(t.Rows, append([]string{fmt.Sprint(p.Namespace), p.String(), fmt.Sprint(p.Packets)}, times(&p.Whole)...))
	}
	return t
}

func hopTable(paths []*collect.Path) record.Table {
	t := record.Table{Title: "Hops", Columns: []string{"path", "hop", "in the node, median", "p99", "to the next node, median", "p99", "queue, mean"}}
	rows := 0
	for _, p := range paths {
		for i := range p.Hops {
			if rows++; rows > MaxRows {
				continue
			}
			h, queue := &p.Hops[i], ""
			if h.Queue.Count() > 0 {
				queue = fmt.Sprintf("%.0f", h.Queue.Mean())
			}
			row := append([]string{p.String(), Hop(p, i)}, times(&h.Delay)...)
			t.Rows = append(t.Rows, append(append(row, times(&h.Link)...), queue))
		}
	}
	t.Note = rest(rows)
	return t
}

func flowTable(flows []*collect.FlowStats) record.Table {
	t := record.Table{Title: "Flows", Columns: []string{"flow", "packets", "octets", "path of the last packet", "changes of the path"}, Note: rest(len(flows))}
	for _, f := range flows[:min(len(flows), MaxRows)] {
		path := ""
		if f.Path != nil {
			path = f.Path.String()
		}
		t.Rows = append(t.Rows, []string{f.Flow.String(), fmt.Sprint(f.Packets), fmt.Sprint(f.Octets), path, fmt.Sprint(f.Changes)})
	}
	return t
}

func edgeTable(edges []collect.EdgeTotals) record.Table {
	t := record.Table{Title: "Edge to edge", Columns: []string{"flow", "namespace", "packets", "lost", "reordered", "mean delay"}, Note: rest(len(edges))}
	for _, e := range edges[:min(len(edges), MaxRows)] {
		delay := ""
		if e.Stamped > 0 {
			delay = time.Duration(e.Delay / int64(e.Stamped)).String()
		}
		t.Rows = append(t.Rows, []string{e.Flow.String(), fmt.Sprint(e.Namespace), fmt.Sprint(e.Packets), fmt.Sprint(e.Lost), fmt.Sprint(e.Reordered), delay})
	}
	return t
}
