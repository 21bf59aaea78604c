// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/modules/ioam/collect"
	"weir/record"
	"weir/record/hist"
)

func newPathCommand(a *cli.App) *cobra.Command {
	var duration time.Duration
	var count uint64
	command := &cobra.Command{
		Use:   "path DESTINATION",
		Short: "Locate the delay on the path to a destination",
		Long: `Collect the traces of packets to an address or a prefix. Show for each hop the delay
in the node, the time until the next node's reception, and the queue length. Times
between nodes depend on their clocks.`,
		Example: `  sudo weir ioam path 2001:db8:4::2
  sudo weir ioam path 2001:db8:4::/64 --duration 1m`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			to, err := destinations(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), duration)
			defer cancel()
			var s collect.Summary
			if _, err := read(ctx, a, count, func(r *collect.Record) error {
				if to.Contains(r.Flow.Destination) {
					s.Add(r)
				}
				return nil
			}); err != nil {
				return err
			}
			return ioamPaths(a, args[0], &s)
		},
	}
	command.Flags().DurationVar(&duration, "duration", 10*time.Second, "time to collect traces")
	command.Flags().Uint64Var(&count, "count", 0, "end after this number of packets; 0 for the whole duration")
	return command
}

// ioamPath is a path in the document of weir ioam path.
type ioamPath struct {
	Namespace uint16    `json:"namespace"`
	Packets   uint64    `json:"packets"`
	Hops      []ioamHop `json:"hops"`
}

type ioamHop struct {
	Node    uint64                   `json:"node"`
	Ingress collect.Optional[uint32] `json:"ingress,omitzero"`
	Egress  collect.Optional[uint32] `json:"egress,omitzero"`
	Delay   *ioamDistribution        `json:"delay_ns,omitempty"` // in the node
	Link    *ioamDistribution        `json:"to_next_ns,omitempty"`
	Queue   *ioamDistribution        `json:"queue,omitempty"`
	// Backwards counts packets that the next node received before this one, by their clocks.
	Backwards uint64 `json:"backwards,omitempty"`
}

type ioamDistribution struct {
	Count  uint64  `json:"count"`
	Mean   float64 `json:"mean"`
	Median uint64  `json:"p50"`
	P99    uint64  `json:"p99"`
	Least  uint64  `json:"min"`
	Most   uint64  `json:"max"`
}

func distributionOf(h *hist.Histogram) *ioamDistribution {
	if h.Count() == 0 {
		return nil
	}
	return &ioamDistribution{h.Count(), h.Mean(), h.Quantile(0.5), h.Quantile(0.99), h.Min(), h.Max()}
}

func ioamPaths(a *cli.App, destination string, s *collect.Summary) error {
	paths := s.Paths()
	if len(paths) == 0 {
		return fault.New(fault.Failed, "look at weir status: are packets encapsulated, and does their namespace end on this node?", "received no trace of a packet to %s", destination)
	}
	if a.Format == "json" {
		all := make([]ioamPath, 0, len(paths))
		for _, p := range paths {
			path := ioamPath{Namespace: p.Namespace, Packets: p.Packets}
			for i := range p.Hops {
				h := &p.Hops[i]
				path.Hops = append(path.Hops, ioamHop{h.Node, h.Ingress, h.Egress, distributionOf(&h.Delay), distributionOf(&h.Link), distributionOf(&h.Queue), h.Backwards})
			}
			all = append(all, path)
		}
		return a.JSON(struct {
			Format string     `json:"format"`
			Paths  []ioamPath `json:"paths"`
		}{"weir-ioam-path/1", all})
	}
	for _, p := range paths {
		if err := a.Table(pathTable(p)); err != nil {
			return err
		}
	}
	return nil
}

const ioamBar = 30

// pathTable shows a path with bars proportional to the delay of each step.
func pathTable(p *collect.Path) record.Table {
	t := record.Table{Title: fmt.Sprintf("%d packets, namespace %d", p.Packets, p.Namespace),
		Columns: []string{"node", "in", "out", "in the node, median", "p99", "to the next node, median", "p99", "", "queue, mean"}}
	longest := uint64(1)
	for i := range p.Hops {
		longest = max(longest, p.Hops[i].Link.Quantile(0.5))
	}
	for i := range p.Hops {
		h := &p.Hops[i]
		row := []string{fmt.Sprint(h.Node), optional(h.Ingress), optional(h.Egress)}
		for _, one := range []*hist.Histogram{&h.Delay, &h.Link} {
			if one.Count() == 0 {
				row = append(row, "", "")
				continue
			}
			row = append(row, collect.Duration(one.Quantile(0.5)).String(), collect.Duration(one.Quantile(0.99)).String())
		}
		row = append(row, strings.Repeat("█", int(h.Link.Quantile(0.5)*ioamBar/longest)))
		queue := ""
		if h.Queue.Count() > 0 {
			queue = fmt.Sprintf("%.0f", h.Queue.Mean())
		}
		t.Rows = append(t.Rows, append(row, queue))
		if h.Backwards > 0 {
			t.Note += fmt.Sprintf("By their clocks, the node behind %d received %d packets earlier: synchronise them. ", h.Node, h.Backwards)
		}
	}
	t.Note = strings.TrimSpace(t.Note)
	return t
}

func optional(v collect.Optional[uint32]) string {
	if !v.Known {
		return ""
	}
	return fmt.Sprint(v.Value)
}
