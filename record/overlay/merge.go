// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"math"
	"slices"
	"strings"

	"weir/record"
)

// merge draws the curves of all parts in the figure of the first one.
func merge(group []part) record.Figure {
	f := group[0].figure
	f.Title, f.XNames, f.Curves = title(group), categories(group), nil
	if slices.ContainsFunc(group, func(p part) bool { return p.figure.Subtitle != f.Subtitle }) {
		f.Subtitle = ""
	}
	alone := !slices.ContainsFunc(group, func(p part) bool { return measured(p.figure) != 1 })
	for _, p := range group {
		for _, c := range p.figure.Curves {
			c.X = placed(c.X, p.figure.XNames, f.XNames)
			switch {
			case c.Reference && slices.ContainsFunc(f.Curves, func(other record.Curve) bool { return same(c, other) }):
				continue
			case c.Reference && common(c, group):
			case alone && !c.Reference:
				c.Name = p.name
			default:
				c.Name = p.name + ", " + c.Name
			}
			f.Curves = append(f.Curves, c)
		}
	}
	return f
}

// title returns the common title up to a colon; the rest names the parameters of a figure.
func title(group []part) string {
	first := group[0].figure.Title
	head, _, _ := strings.Cut(first, ":")
	for _, p := range group {
		if p.figure.Title != first {
			return head
		}
	}
	return first
}

// measured counts the curves that are no references.
func measured(f record.Figure) (n int) {
	for _, c := range f.Curves {
		if !c.Reference {
			n++
		}
	}
	return n
}

// common reports whether all parts have the curve.
func common(c record.Curve, group []part) bool {
	return !slices.ContainsFunc(group, func(p part) bool {
		return !slices.ContainsFunc(p.figure.Curves, func(other record.Curve) bool { return same(c, other) })
	})
}

func same(a, b record.Curve) bool {
	return a.Name == b.Name && a.Reference == b.Reference && slices.Equal(a.X, b.X) && slices.EqualFunc(a.Y, b.Y, func(x, y float64) bool {
		return x == y || math.IsNaN(x) && math.IsNaN(y)
	})
}

// categories returns the categories of all parts in order of first occurrence.
func categories(group []part) (all []string) {
	for _, p := range group {
		for _, name := range p.figure.XNames {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// placed maps positions among some categories to positions among all, and interpolates between
// them.
func placed(x []float64, some, all []string) []float64 {
	if slices.Equal(some, all) {
		return x
	}
	moved := make([]float64, len(x))
	for i, at := range x {
		switch {
		case at < 0:
			moved[i] = at
		case at > float64(len(some)-1):
			moved[i] = at + float64(len(all)-len(some))
		default:
			moved[i] = float64(slices.Index(all, some[int(math.Round(at))]))
		}
	}
	return moved
}
