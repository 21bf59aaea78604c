// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/record"
)

// Tables returns the report for a terminal: the machine, the capabilities, and the features.
func (r Report) Tables() []record.Table {
	return []record.Table{r.machineTable(), r.capabilityTable(), r.featureTable()}
}

func (r Report) machineTable() record.Table {
	m := r.Machine
	virtual := m.Virtual
	if virtual == "" {
		virtual = "none seen"
	}
	tai := "not set"
	if r.Clock.TAI != 0 {
		tai = fmt.Sprintf("%d s ahead of UTC", r.Clock.TAI)
	}
	return record.Table{Title: "Machine", Columns: []string{"property", "value"}, Rows: [][]string{
		{"kernel", m.Kernel},
		{"distribution", m.Distro},
		{"processor", fmt.Sprintf("%s, %d usable cores", m.CPU, m.Cores)},
		{"memory", fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30))},
		{"virtualization", virtual},
		{"clock", r.Clock.Source + ", TAI " + tai},
		{"control groups", strings.TrimSpace(r.Cgroups.Mode + " " + r.Cgroups.Path)},
		{"privileges", r.Privileges.text()},
	}}
}

func (p Privileges) text() string {
	var have, lack []string
	for _, name := range slices.Sorted(maps.Keys(p.Capabilities)) {
		if p.Capabilities[name] {
			have = append(have, name)
		} else {
			lack = append(lack, name)
		}
	}
	text := "without " + strings.Join(lack, " ")
	switch {
	case len(lack) == 0:
		text = "every capability that Weir uses"
	case len(have) == 0:
		text = "none"
	case len(lack) > len(have):
		text = strings.Join(have, " ")
	}
	if p.SeccompFilter {
		text += ", behind a seccomp filter"
	}
	return text
}

func (r Report) capabilityTable() record.Table {
	table := record.Table{
		Title:   "Capabilities",
		Columns: []string{"capability", "state", "mechanism", "not here"},
	}
	var advice []string
	for _, c := range r.Capabilities {
		table.Rows = append(table.Rows, []string{c.Name, string(c.State), c.Mechanism, strings.Join(c.Missing, ", ")})
		if c.Try != "" {
			advice = append(advice, "  "+c.Name+": "+c.Try)
		}
	}
	for _, note := range r.Notes {
		advice = append(advice, "  note: "+note)
	}
	table.Note = strings.Join(advice, "\n")
	return table
}

// featureTable has one row per group and state, so that a kernel fits on a screen.
func (r Report) featureTable() record.Table {
	table := record.Table{
		Title:   "Features of the kernel, tried",
		Columns: []string{"group", "state", "features"},
		Note:    "'weir doctor --format json' has the reason for each.",
	}
	var groups []string
	names := map[[2]string][]string{}
	for _, feature := range r.Features {
		if !slices.Contains(groups, feature.Group) {
			groups = append(groups, feature.Group)
		}
		key := [2]string{feature.Group, feature.standing()}
		names[key] = append(names[key], feature.Name)
	}
	for _, group := range groups {
		for _, standing := range []string{string(Available), string(Missing), deniedWith, deniedWithout, string(NotPermitted)} {
			if list := names[[2]string{group, standing}]; len(list) > 0 {
				table.Rows = append(table.Rows, []string{group, standing, strings.Join(list, ", ")})
			}
		}
	}
	return table
}

// Additions from the kernel's configuration if a feature could not be probed.
const (
	deniedWith    = "not permitted, kernel has it"
	deniedWithout = "not permitted, kernel lacks it"
)

func (f Feature) standing() string {
	switch {
	case f.State != NotPermitted || f.Configured == "":
		return string(f.State)
	case f.Configured == "n":
		return deniedWithout
	}
	return deniedWith
}
