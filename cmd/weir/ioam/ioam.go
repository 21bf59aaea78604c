// SPDX-License-Identifier: Apache-2.0

// Package ioam is the command group weir ioam, which shows traces, paths and edges.
package ioam

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/modules/ioam/collect"
	"weir/modules/ioam/node"
	"weir/modules/ioam/proof"
	"weir/record"
)

// Command returns the command weir ioam.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "ioam",
		Short: "Read in-band telemetry of packets",
		Long: `Read in-band telemetry of packets, on the node where their IOAM namespace ends (the node
with remove: true in the section ioam of its policy). Only one of these commands can run
at a time.`,
		Example: `  sudo weir ioam watch
  sudo weir ioam path 2001:db8:4::2
  sudo weir ioam edges`,
	}
	command.AddCommand(newWatchCommand(a), newPathCommand(a), newIOAMEdgesCommand(a), newIOAMProofCommand(a))
	return command
}

// pinFolder returns the folder of the module's pins.
func pinFolder(a *cli.App) (string, error) {
	e, err := a.Engine()
	if err != nil {
		return "", err
	}
	return filepath.Join(e.PinDir, node.Name), nil
}

// read reads records until the context ends or a maximum is reached; 0 is unlimited.
func read(ctx context.Context, a *cli.App, most uint64, each func(*collect.Record) error) (senseless uint64, err error) {
	pins, err := pinFolder(a)
	if err != nil {
		return 0, err
	}
	reader, err := node.OpenRecords(pins)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reader.Close() }()
	for n := uint64(0); most == 0 || n < most; n++ {
		var r collect.Record
		err := reader.Read(ctx, &r)
		switch {
		case errors.Is(err, node.ErrRecord):
			senseless++
			continue
		case ctx.Err() != nil:
			return senseless, nil
		case err != nil:
			return senseless, err
		}
		if err := each(&r); err != nil {
			return senseless, err
		}
	}
	return senseless, nil
}

// destinations parses an address or a prefix; "" is every destination.
func destinations(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fault.New(fault.Usage, "write it as 2001:db8::1 or 2001:db8::/32", "%q is neither an address nor a prefix", text)
	}
	return prefix.Masked(), nil
}

// line returns a record as one line.
func line(r *collect.Record) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s  %s", r.At().Format("15:04:05.000000"), r.Flow)
	if r.Looped {
		line.WriteString("  sent back")
	}
	if r.Proof != "" {
		fmt.Fprintf(&line, "  proof %s", r.Proof)
	}
	if r.Export != nil {
		fmt.Fprintf(&line, "  postcard %d of flow %#x", r.Export.Sequence, r.Export.Flow)
	}
	for _, t := range r.Traces {
		fmt.Fprintf(&line, "  namespace %d:", t.Namespace)
		for i, h := range t.Hops {
			if i > 0 {
				line.WriteString(" " + ioamArrow(t.Hops[i-1], h))
			}
			fmt.Fprintf(&line, " %d", h.Node)
			if h.Delay.Known {
				fmt.Fprintf(&line, " (%s)", time.Duration(h.Delay.Value))
			}
		}
		if t.Overflow {
			line.WriteString(" ... trace full")
		}
	}
	return line.String()
}

func ioamArrow(from, to collect.Hop) string {
	if !from.Received.Known || !to.Received.Known {
		return ">"
	}
	return fmt.Sprintf("-%s>", time.Duration(to.Received.Value-from.Received.Value))
}

func newIOAMProofCommand(a *cli.App) *cobra.Command {
	var nodes int
	var out string
	command := &cobra.Command{
		Use:   "proof",
		Short: "Create the files of a proof of transit",
		Long: `Create the files of a proof of transit for a path, one file per node. node-1.json is for
the first node, which inserts the option; the file with the highest number is for the
last node, which verifies the option. The files are secret: copy each file only to its
node, and write its path into the policy as ioam.namespaces.NUMBER.proof. Each file has
two profiles; the lowest bit of a packet's id selects the profile.`,
		Example: `  weir ioam proof --nodes 3 --out proof`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			files, err := writeProofs(out, nodes)
			if err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(struct {
					Format string   `json:"format"`
					Files  []string `json:"files"`
				}{"weir-ioam-proof-files/1", files})
			}
			_, err = fmt.Fprintln(a.Stdout, strings.Join(files, "\n"))
			return err
		},
	}
	command.Flags().IntVar(&nodes, "nodes", 3, "number of nodes on the path, including the first and the last")
	command.Flags().StringVar(&out, "out", ".", "folder of the files")
	return command
}

func writeProofs(out string, nodes int) (files []string, err error) {
	random := func() uint64 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		return binary.NativeEndian.Uint64(b[:])
	}
	var both [2][]proof.Profile
	for i := range both {
		if both[i], err = proof.Profiles(nodes, random); err != nil {
			return nil, fault.Wrap(err, fault.Usage, "give --nodes 2 to 64")
		}
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return nil, fmt.Errorf("write proofs: %w", err)
	}
	for i := range nodes {
		text, err := json.MarshalIndent(proof.NewProofFile(i, nodes, &both[0][i], &both[1][i]), "", "  ")
		if err != nil {
			return nil, fmt.Errorf("write proofs: %w", err)
		}
		file := filepath.Join(out, fmt.Sprintf("node-%d.json", i+1))
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			return nil, fmt.Errorf("write proofs: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

func newIOAMEdgesCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "edges",
		Short: "Show loss, reordering and delay of flows with edge-to-edge options",
		Long: `Show loss, reordering and one-way delay of the flows with edge-to-edge options that
end here. Delays depend on the clocks of both edges.`,
		Example: `  sudo weir ioam edges
  sudo weir ioam edges --format json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			pins, err := pinFolder(a)
			if err != nil {
				return err
			}
			edges, err := node.Edges(pins)
			if err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(struct {
					Format string      `json:"format"`
					Edges  []node.Edge `json:"edges"`
				}{"weir-ioam-edges/1", edges})
			}
			t := record.Table{Columns: []string{"flow", "namespace", "packets", "lost", "reordered", "delay", "min", "max"}}
			for _, e := range edges {
				t.Rows = append(t.Rows, []string{e.Flow.String(), fmt.Sprint(e.Namespace), fmt.Sprint(e.Packets), fmt.Sprint(e.Lost), fmt.Sprint(e.Reordered),
					fmt.Sprint(time.Duration(e.Mean)), fmt.Sprint(time.Duration(e.Min)), fmt.Sprint(time.Duration(e.Max))})
			}
			return a.Table(t)
		},
	}
}
