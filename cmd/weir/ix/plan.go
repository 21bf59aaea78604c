// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/ix/plan"
	"weir/record"
)

// planOptions are the flags of weir ix plan.
type planOptions struct {
	source
	without string
	traffic string
	paths   int
	each    bool
}

func newPlanCommand(a *cli.App) *cobra.Command {
	var o planOptions
	command := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show the paths of each member and the load of each port",
		Long: `Show, for an exchange file and a table, the paths of each member without and with Weir,
their estimated memory in BIRD, FRR and OpenBGPD, and the maximum-prefix limit that the
sessions need. For each port show its share of the traffic if members use their first
path, if they use all paths, and today: a route server that sends one shortest path.

A path belongs to the port that has its next hop as an address; other paths are left out
and counted. Without --traffic each prefix counts the same.

For --traffic write a CSV file with a destination prefix or address and its bytes in each
line, as in 192.0.2.0/24,1000.`,
		Example: `  weir ix plan exchange.yaml --rib rib.mrt.bz2
  weir ix plan exchange.yaml --rib rib4.mrt --rib rib6.mrt --paths 8
  weir ix plan exchange.yaml --rib rib.mrt --without orange       a sponsor fails
  weir ix plan exchange.yaml --rib rib.mrt --without orange/ber1  a port fails
  weir ix plan exchange.yaml --rib rib.mrt --failures             each sponsor in turn
  weir ix plan exchange.yaml --rib rib.mrt --traffic bytes.csv --format json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("paths") && (o.paths < 1 || o.paths > 65535) {
				return fault.New(fault.Usage, "as in --paths 4", "--paths %d is not from 1 to 65535", o.paths)
			}
			return o.run(a, args[0])
		},
	}
	o.flags(command)
	command.Flags().StringVar(&o.without, "without", "", "show the effects if SPONSOR or SPONSOR/PORT fails")
	command.Flags().BoolVar(&o.each, "failures", false, "show the effects of the failure of each sponsor, one after the other")
	command.Flags().StringVar(&o.traffic, "traffic", "", "CSV file of prefix,bytes: weights of the prefixes")
	command.Flags().IntVar(&o.paths, "paths", 0, "paths per prefix of every member, 1 to 65535; default: those of FILE")
	return command
}

func (o *planOptions) run(a *cli.App, file string) error {
	if o.each && o.without != "" {
		return fault.New(fault.Usage, "write one of them", "--failures is beside --without")
	}
	options := plan.Options{Paths: o.paths, Without: o.without, Failures: o.each}
	if o.traffic != "" {
		var err error
		if options.Traffic, err = plan.LoadTraffic(o.traffic); err != nil {
			return err
		}
	}
	e, t, err := o.load(a, file)
	if err != nil {
		return err
	}
	p, err := plan.Compute(e, t, options)
	if err != nil {
		return err
	}
	if a.Format == "json" {
		return a.JSON(p)
	}
	return show(a, p)
}

// show prints the tables of a plan.
func show(a *cli.App, p *plan.Plan) error {
	if _, err := fmt.Fprintf(a.Stdout, "%d paths to %d prefixes, %d attribute sets, %s\n", p.RIB.Paths, p.RIB.Prefixes, p.RIB.AttributeSets, size(uint64(p.RIB.Bytes))); err != nil {
		return err
	}
	if f := p.Traffic; f != nil {
		fmt.Fprintf(a.Stdout, "traffic: %s, %s of it to prefixes of the table\n", size(f.Bytes), percent(float64(f.Matched)/float64(f.Bytes)))
	}
	tables := []record.Table{members(p), memory(p), ports(p)}
	if p.Without != nil {
		tables = append(tables, failure(p))
	}
	if len(p.Failures) > 0 {
		tables = append(tables, failures(p))
	}
	for _, t := range tables {
		fmt.Fprintln(a.Stdout)
		if err := a.Table(t); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Stdout, "\nBusiest port, relative to its rate: %.2f if members use their first path, %.2f if they use all, %.2f today\n", p.Spread.First, p.Spread.All, p.Spread.Today)
	if f := p.Without; f != nil {
		fmt.Fprintf(a.Stdout, "Without %s: %.2f and %.2f\n", f.Name, f.First, f.All)
	}
	return nil
}

// size prints bytes with one decimal, "1.5 MB".
func size(bytes uint64) string {
	v, names := float64(bytes), []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for ; v >= 1000 && i < len(names)-1; i++ {
		v /= 1000
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " " + names[i]
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func members(p *plan.Plan) record.Table {
	t := record.Table{Title: "Members", Note: "before: all paths of the sponsors; after: at most N per prefix; hops: mean AS hops of the first path, and of the shortest",
		Columns: []string{"member", "N", "paths before", "after", "prefixes", "max-prefix IPv4", "IPv6", "hops", "shortest", "second AS distinct"}}
	small := slices.ContainsFunc(p.Members, func(m plan.Member) bool { return m.Omitted > 0 })
	if small {
		t.Columns = append(t.Columns, "omitted")
	}
	for _, m := range p.Members {
		row := []string{m.Name, strconv.Itoa(m.Limit), strconv.Itoa(m.Before), strconv.Itoa(m.After), strconv.Itoa(m.Prefixes.IPv4 + m.Prefixes.IPv6),
			strconv.Itoa(m.Max.IPv4), strconv.Itoa(m.Max.IPv6), fmt.Sprintf("%.2f", m.Length), fmt.Sprintf("%.2f", m.Shortest), percent(m.Distinct)}
		if small {
			row = append(row, strconv.Itoa(m.Omitted))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func memory(p *plan.Plan) record.Table {
	t := record.Table{Title: "Memory of the paths in a member's router, estimated", Columns: []string{"member", "BIRD before", "after", "FRR before", "after", "OpenBGPD before", "after"}}
	for _, m := range p.Members {
		row := []string{m.Name}
		for _, daemon := range []string{"bird", "frr", "openbgpd"} {
			row = append(row, size(uint64(m.Memory[daemon].Before)), size(uint64(m.Memory[daemon].After)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func ports(p *plan.Plan) record.Table {
	t := record.Table{Title: "Ports", Note: "shares of the traffic of all members", Columns: []string{"port", "rate", "first path", "all paths", "today"}}
	if p.Without != nil {
		t.Columns = append(t.Columns, "first, after the failure", "all, after the failure")
	}
	for _, v := range p.Ports {
		row := []string{v.Sponsor + "/" + v.Port, units.BitRate(v.Rate).Short(), percent(v.Share), percent(v.All), percent(v.Today)}
		if p.Without != nil {
			row = append(row, percent(*v.Failure), percent(*v.FailureAll))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func failure(p *plan.Plan) record.Table {
	t := record.Table{Title: "Without " + p.Without.Name, Note: "displaced: paths of other ports that leave a set, for length or diversity",
		Columns: []string{"member", "paths lost", "announced", "displaced", "prefixes with another first path", "prefixes without any"}}
	for _, m := range p.Members {
		f := m.Failure
		t.Rows = append(t.Rows, []string{m.Name, strconv.Itoa(f.Lost), strconv.Itoa(f.Announced), strconv.Itoa(f.Displaced), strconv.Itoa(f.Moved), strconv.Itoa(f.Dark)})
	}
	return t
}

func failures(p *plan.Plan) record.Table {
	t := record.Table{Title: "Failures", Note: "paths of all members; busiest: the load of the busiest port, relative to its rate",
		Columns: []string{"without", "paths lost", "announced", "displaced", "prefixes without any", "busiest, first path", "busiest, all paths"}}
	for _, f := range p.Failures {
		t.Rows = append(t.Rows, []string{f.Name, strconv.Itoa(f.Lost), strconv.Itoa(f.Announced), strconv.Itoa(f.Displaced), strconv.Itoa(f.Dark),
			fmt.Sprintf("%.2f", f.First), fmt.Sprintf("%.2f", f.All)})
	}
	return t
}
