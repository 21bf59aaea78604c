// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/bundle"
	"weir/record/compare"
)

func newCompareCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Show significant differences of two evidence bundles",
		Long: `Show significant differences of two evidence bundles.

Welch's t test compares every quantity that both contain; the p values are corrected
for the number of comparisons (Holm).`,
		Example: "  weir lab compare weir-out/before weir-out/after",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := sweep(a); err != nil {
				return err
			}
			return compareBundles(a, args[0], args[1])
		},
	}
}

// compareBundles prints the differences of two bundles.
func compareBundles(a *cli.App, first, second string) error {
	var both [2]*record.Bundle
	for i, dir := range []string{first, second} {
		b, err := bundle.Read(dir)
		if err != nil {
			return err
		}
		both[i] = b
	}
	if one, other := both[0].Manifest.Kind, both[1].Manifest.Kind; one != other {
		return fault.New(fault.Usage, "compare bundles of one command", "%s was measured by weir %s and %s by weir %s: they have no quantity in common", first, one, second, other)
	}
	result := compare.Compare(both[0], both[1])
	if a.Format == "json" { // a command prints one document; weir lab compare prints the other
		return a.JSON(struct {
			Format string         `json:"format"`
			A      string         `json:"a"`
			B      string         `json:"b"`
			Result compare.Result `json:"result"`
		}{"weir-lab-comparison/1", first, second, result})
	}
	t := result.Table()
	t.Title = "Differences: " + first + " (first), " + second + " (second)"
	for _, t := range []record.Table{bundleTable([2]string{first, second}, both), t, result.All()} {
		if err := a.Table(t); err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout)
	}
	return nil
}

// bundleTable describes the two bundles and their plots.
func bundleTable(dirs [2]string, both [2]*record.Bundle) record.Table {
	t := record.Table{Title: "Bundles", Columns: []string{"", "folder", "measured", "content", "kernel", "seed", "plots"}}
	for i, b := range both {
		m := b.Manifest
		plots, _ := filepath.Glob(filepath.Join(dirs[i], bundle.PlotsFolder, "*.svg"))
		where := "none"
		if len(plots) > 0 {
			where = fmt.Sprintf("%d in %s", len(plots), filepath.Join(dirs[i], bundle.PlotsFolder))
		}
		t.Rows = append(t.Rows, []string{[]string{"first", "second"}[i], dirs[i], m.Started.UTC().Format(time.DateTime), m.Name, m.Machine.Kernel, fmt.Sprint(m.Seed), where})
	}
	return t
}

func newRerunCommand(a *cli.App) *cobra.Command {
	var o runOptions
	command := &cobra.Command{
		Use:   "rerun BUNDLE",
		Short: "Measure a bundle's scenario again and compare",
		Long: `Measure a bundle's scenario again, with the file, the parameters and the seed in the
bundle, and show significant differences.`,
		Example: "  sudo weir lab rerun weir-out/loss-study-20240520-160000",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			manifest, err := bundle.ReadManifest(args[0])
			if err != nil {
				return err
			}
			s, err := scenarioOf(manifest, command, &o)
			if err != nil {
				return err
			}
			dir, err := measure(a, command, s, o, manifest.Parameters)
			if dir == "" || fault.Of(err) != fault.OK && !isVerdict(err) {
				return err
			}
			if a.Format == "json" { // a command prints one document; weir lab compare prints the other
				return err
			}
			fmt.Fprintln(a.Stdout)
			if compareErr := compareBundles(a, args[0], dir); compareErr != nil {
				return compareErr
			}
			return err
		},
	}
	o.addFlags(command)
	return command
}

// scenarioOf rebuilds the scenario that a bundle was measured with.
func scenarioOf(m *record.Manifest, command *cobra.Command, o *runOptions) (*scenario.Scenario, error) {
	if m.Kind != "lab" || m.Source == "" {
		return nil, fault.New(fault.Usage, "name a bundle that weir lab run has written", "the bundle was measured by weir %s, not in the lab", m.Kind)
	}
	s, err := scenario.Parse(filepath.Base(m.Name)+".yaml", []byte(m.Source))
	if err != nil {
		return nil, err
	}
	o.seed = m.Seed
	if m.Parameters == nil {
		m.Parameters = map[string]string{}
	}
	for name, value := range m.Parameters {
		switch name {
		case "repetitions":
			if _, err := fmt.Sscan(value, &s.Repetitions); err != nil {
				return nil, fault.New(fault.Usage, "", "the bundle's number of repetitions is %q", value)
			}
		case "generator":
			if !command.Flags().Changed("generator") {
				o.generator = value
			}
		case "carrier":
			if !command.Flags().Changed("carrier") {
				o.carrier = value
			}
		default:
			if err := s.Set(name, splitValues(value)); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// isVerdict reports whether err concerns only verdicts of a complete measurement.
func isVerdict(err error) bool {
	return err == cli.ErrVerdict || err != nil && strings.HasSuffix(err.Error(), cli.ErrVerdict.Error())
}
