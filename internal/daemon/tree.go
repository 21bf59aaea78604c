package daemon

import (
	"fmt"
	"slices"

	"weir/limit"
)

// arrange leads the data plane's tree of scopes from one state to another, parents before their children. Where no scope has
// a parent it does nothing.
func arrange(plane *limit.DataPlane, have, next *state) error {
	stays := next.byIndex()
	for _, h := range have.Held {
		if now, kept := stays[h.Index]; h.Scope.Parent == "" || kept && now.Scope.Parent != "" {
			continue
		}
		if err := plane.ClearParent(h.Index); err != nil {
			return err
		}
	}
	named := next.byName()
	depth := func(h held) (n int) {
		for ; h.Scope.Parent != ""; h = named[h.Scope.Parent] {
			n++
		}
		return n
	}
	var children []held
	for _, h := range next.Held {
		if h.Scope.Parent != "" {
			children = append(children, h)
		}
	}
	slices.SortStableFunc(children, func(a, b held) int { return depth(a) - depth(b) })
	for _, h := range children {
		if err := plane.SetParent(h.Index, named[h.Scope.Parent].Index); err != nil {
			return fmt.Errorf("scope %s: %w", h.Scope.Name, err)
		}
	}
	return nil
}
