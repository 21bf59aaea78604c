// SPDX-License-Identifier: Apache-2.0

// Package overlay merges the curves of several bundles into one figure.
//
// Figures of two bundles are the same if name, kind and units are equal. Figures in only one bundle
// are omitted. A published or predicted curve that is the same in all is drawn once.
package overlay

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/record"
	"weir/record/figures"
)

// Kind is the manifest's kind of a bundle made by Of.
const Kind = "overlay"

// drawn is the number of time lines, and of distributions, for a bundle without own figures.
const drawn = 8

// Source is a bundle with its folder and a unique name for its curves.
type Source struct {
	Name, Folder string
	Bundle       *record.Bundle
}

// Of returns a bundle with the figures of at least two sources, and with the samples of all; a
// label holds the source's name. No common figure is a fault.
func Of(sources []Source) (*record.Bundle, error) {
	b := &record.Bundle{Manifest: record.Manifest{Kind: Kind, Name: "overlay of " + names(sources)}}
	var groups [][]part
	for _, s := range sources {
		list, _ := figures.All(s.Bundle, drawn)
		for _, f := range list {
			groups = add(groups, part{s.Name, f})
		}
	}
	single := 0
	for _, group := range groups {
		if len(group) < 2 {
			single++
			continue
		}
		b.Figures = append(b.Figures, merge(group))
	}
	if len(b.Figures) == 0 {
		return nil, fault.New(fault.Usage, "give bundles of the same scenario or command, as 'weir lab run' and 'weir tester' write them",
			"no two of the %d bundles have a figure of the same name, kind and units", len(sources))
	}
	if single > 0 {
		b.Manifest.Notes = []string{fmt.Sprintf("Figures that one bundle alone has are left out: %d.", single)}
	}
	b.Samples, b.Tables = samples(sources), []record.Table{table(sources)}
	return b, nil
}

func names(sources []Source) string {
	var all []string
	for _, s := range sources {
		all = append(all, s.Name)
	}
	return strings.Join(all, ", ")
}

// part is one source's figure.
type part struct {
	name   string
	figure record.Figure
}

// add adds a figure to its group of equal figures.
func add(groups [][]part, p part) [][]part {
	for i, group := range groups {
		f := group[0].figure
		if f.Name == p.figure.Name && f.Kind == p.figure.Kind && f.XUnit == p.figure.XUnit && f.YUnit == p.figure.YUnit {
			groups[i] = append(group, p)
			return groups
		}
	}
	return append(groups, []part{p})
}

// samples returns the samples of all sources under a new label.
func samples(sources []Source) (all []record.Sample) {
	label := "bundle"
	taken := func(s Source) bool {
		return slices.ContainsFunc(s.Bundle.Samples, func(one record.Sample) bool { _, has := one.Labels[label]; return has })
	}
	for slices.ContainsFunc(sources, taken) {
		label = "of " + label
	}
	for _, s := range sources {
		for _, one := range s.Bundle.Samples {
			labels := record.Labels{label: s.Name}
			maps.Copy(labels, one.Labels)
			one.Labels = labels
			all = append(all, one)
		}
	}
	return all
}

// table maps names to bundles.
func table(sources []Source) record.Table {
	t := record.Table{Title: "Bundles", Columns: []string{"name", "folder", "measured", "what", "kernel", "seed"}}
	for _, s := range sources {
		m := s.Bundle.Manifest
		t.Rows = append(t.Rows, []string{s.Name, s.Folder, m.Started.UTC().Format(time.DateTime), m.Name, m.Machine.Kernel, fmt.Sprint(m.Seed)})
	}
	return t
}

// Name names unnamed sources by the last elements of their folders, without common leading words.
func Name(sources []Source) {
	var words [][]string
	for _, s := range sources {
		if s.Name == "" {
			words = append(words, strings.Split(filepath.Base(filepath.Clean(s.Folder)), "-"))
		}
	}
	for len(words) > 1 && !slices.ContainsFunc(words, func(w []string) bool { return len(w) < 2 || w[0] != words[0][0] }) {
		for i := range words {
			words[i] = words[i][1:]
		}
	}
	for i := range sources {
		if sources[i].Name == "" {
			sources[i].Name, words = strings.Join(words[0], "-"), words[1:]
		}
	}
}
