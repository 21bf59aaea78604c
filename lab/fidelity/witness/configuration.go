// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"weir/kernel/netns"
	"weir/kernel/netstate"
)

// configuration is the initial configuration of one namespace, with the kernel notifications since.
type configuration struct {
	name      string // for people
	namespace *netns.Namespace
	tested    bool
	built     netstate.State
	watch     *netstate.Watch
}

func (c *configuration) close() {
	if c.watch != nil {
		c.watch.Close()
		c.watch = nil
	}
}

func (w *Witness) openConfigurations() error {
	for _, p := range w.bed.Places {
		w.configs = append(w.configs, configuration{name: p.Name, namespace: p.Namespace, tested: p.Tested})
	}
	if w.bed.Carrier != nil {
		w.configs = append(w.configs, configuration{name: "the links' namespace", namespace: w.bed.Carrier,
			// XDP at a host's device asks something of its peer.
			tested: tested(w.bed)})
	}
	return w.eachConfiguration(func(c *configuration) (err error) {
		if c.built, err = netstate.Take(c.namespace); err != nil {
			return err
		}
		c.watch, err = netstate.Open(c.namespace, c.built)
		return err
	})
}

// eachConfiguration processes as many namespaces concurrently as there are CPUs.
func (w *Witness) eachConfiguration(f func(*configuration) error) error {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i := range w.configs {
		group.Go(func() error {
			if err := f(&w.configs[i]); err != nil {
				return fmt.Errorf("%s: %w", w.configs[i].name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// maxChanges is the maximum number of reported changes per namespace.
const maxChanges = 4

// changes describes the differences to the initial configuration, including temporary ones.
func (w *Witness) changes(report *Report) ([]string, error) {
	found := make([][]string, len(w.configs))
	err := w.eachConfiguration(func(c *configuration) error {
		reports, err := c.watch.Changes()
		if err != nil {
			return err
		}
		now, err := netstate.Again(c.namespace, c.built, reports)
		if err != nil {
			return err
		}
		said := map[string]bool{}
		var words []string
		for n, list := range [][]netstate.Change{netstate.Changes(c.built, now), reports} {
			for _, change := range list {
				if c.tested && testers(change.What) || said[change.What] {
					continue
				}
				said[change.What] = true
				text := c.name + ": " + change.String()
				if n == 1 {
					text += " during the run"
				}
				words = append(words, text)
			}
		}
		for i := range w.configs {
			if &w.configs[i] == c {
				found[i] = words
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare configurations: %w", err)
	}
	var all []string
	digest := sha256.New()
	for i, words := range found {
		// Changes of a device precede their consequences.
		slices.SortStableFunc(words, func(x, y string) int { return consequence(x) - consequence(y) })
		if len(words) > maxChanges {
			words = append(words[:maxChanges], fmt.Sprintf("%s: %d more changes", w.configs[i].name, len(words)-maxChanges))
		}
		all = append(all, words...)
		fmt.Fprintln(digest, w.configs[i].name, w.configs[i].built.Digest())
		report.Settings += len(w.configs[i].built)
	}
	report.Namespaces, report.Configuration = len(w.configs), hex.EncodeToString(digest.Sum(nil))
	return all, nil
}

// consequence ranks changes: addresses, routes and settings that follow a device come last.
func consequence(text string) int {
	_, what, _ := strings.Cut(text, ": ")
	rank := 1
	for _, prefix := range []string{"address ", "route ", "neighbour ", "setting net/ipv6/conf/", "setting net/ipv4/conf/", "setting net/ipv6/neigh/", "setting net/ipv4/neigh/"} {
		if strings.HasPrefix(what, prefix) {
			rank = 2
		}
	}
	if strings.HasPrefix(what, "device ") && !strings.Contains(what, "attribute ") {
		rank = 0
	}
	return rank
}

// testers reports whether a frame tester changes this in normal operation: its devices, queues and
// programs.
func testers(what string) bool {
	for _, prefix := range []string{"device ", "offload", "qdisc ", "TCX ", "channels ", "rings ", "neighbour ", "setting net/"} {
		if strings.HasPrefix(what, prefix) {
			return true
		}
	}
	return false
}
