// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/core/policy"
	"weir/core/selector/runtimes"
	"weir/kernel/cgroup"
)

/*
 * A container matches by its cgroup. The runtime reports its process, and before its start Weir
 * computes the path of the cgroup that the runtime will create, so that the kernel binds the cgroup
 * at its creation: the first packet is limited already.
 *
 *   name, ID or label -> container -> cgroup of its process    runs
 *                                  -> path of a future cgroup  does not run
 */

// container matches the cgroups of containers.
var container = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "container", Doc: "Sockets of containers that Docker or Podman run as root, by name (web), ID (at least 12 digits) or label (app=web). All containers with the label share one limit.", Sample: "",
		Parse: parseContainer,
	},
	Bind: bindContainer,
	Near: func(h *Host, text string) string {
		all, err := h.listContainers()
		if err != nil || strings.Contains(text, "=") {
			return ""
		}
		var names []string
		for _, c := range all {
			names = append(names, c.Names...)
		}
		return nearName(text, names)
	},
	Inside: func(h *Host, text string) (Inside, string, error) {
		bound, err := bindContainer(h, text)
		if err != nil || bound.Missing != "" {
			return Inside{}, bound.Missing, err
		}
		root, err := cgroup.Root()
		return Inside{Cgroup: filepath.Join(root, bound.Path), By: "the container's cgroup"}, "", err
	},
	Follow: func(ctx context.Context, h *Host, changed func()) { followRuntimes(ctx, h.runtimes(), changed) },
}

// containerName is the form of names, IDs and keys of labels.
var containerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./-]*$`)

func parseContainer(text string) (canonical, words string, err error) {
	key, value, label := strings.Cut(text, "=")
	if !containerName.MatchString(key) || !label && strings.Contains(text, "/") || len(text) > 512 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
		return "", "", fmt.Errorf("%q is neither the name or ID of a container nor a label: write it as in web or app=web", text)
	}
	if label {
		return text, "containers with " + text, nil
	}
	return text, "container " + text, nil
}

// minID is the minimum number of digits of an abbreviated ID.
const minID = 12

// matching returns the containers that a selector matches. An ID precedes names: otherwise a
// container with the ID of another one as its name would end the limit of that one.
func matching(all []runtimes.Container, text string) []runtimes.Container {
	filter := func(is func(runtimes.Container) bool) (found []runtimes.Container) {
		for _, c := range all {
			if is(c) {
				found = append(found, c)
			}
		}
		return found
	}
	if key, value, label := strings.Cut(text, "="); label {
		return filter(func(c runtimes.Container) bool {
			have, labelled := c.Labels[key]
			return labelled && have == value
		})
	}
	if len(text) >= minID {
		if found := filter(func(c runtimes.Container) bool { return strings.HasPrefix(c.ID, text) }); len(found) > 0 {
			return found
		}
	}
	return filter(func(c runtimes.Container) bool { return slices.Contains(c.Names, text) })
}

// ErrAway is returned if no service can resolve a selector now. An active binding stays.
var ErrAway = errors.New("containers cannot be found")

// runtimeWait is the time that all requests of one resync together wait for runtimes: systemd
// starts Podman's service for a request.
const runtimeWait = 8 * time.Second

// deadline returns the end of all requests to runtimes.
func (h *Host) deadline() time.Time {
	if h.until.IsZero() {
		h.until = time.Now().Add(cmp.Or(h.RuntimeWait, runtimeWait))
	}
	return h.until
}

func (h *Host) runtimes() []runtimes.Runtime {
	if h.Runtimes == nil {
		return runtimes.All()
	}
	return h.Runtimes
}

// listContainers lists the containers of all runtimes, once.
func (h *Host) listContainers() ([]runtimes.Container, error) {
	if h.listed {
		return h.containers, h.unlisted
	}
	h.listed = true
	answered := false
	for _, r := range h.runtimes() {
		all, err := r.Containers(h.deadline())
		if errors.Is(err, runtimes.ErrAbsent) {
			continue
		}
		if err != nil {
			h.unlisted = fmt.Errorf("%w: %w", ErrAway, err)
			return nil, h.unlisted
		}
		answered = true
		h.containers = append(h.containers, all...)
	}
	if !answered {
		h.unlisted = fmt.Errorf("%w: neither Docker nor Podman answers at its socket in /run", ErrAway)
	}
	return h.containers, h.unlisted
}

func bindContainer(h *Host, text string) (Binding, error) {
	all, err := h.listContainers()
	if err != nil {
		return Binding{}, err
	}
	found := matching(all, text)
	label := strings.Contains(text, "=")
	switch {
	case len(found) == 0 && label:
		return Binding{Missing: "there is no container with " + text}, nil
	case len(found) == 0:
		return Binding{Missing: "there is no container " + text}, nil
	case len(found) > 1 && !label:
		return Binding{Missing: fmt.Sprintf("container %s is one of %s and one of %s: write the ID of one", text, found[0].Runtime.Name, found[1].Runtime.Name)}, nil
	}
	var places []Object
	reason := ""
	for _, c := range found {
		one, missing, err := h.containerCgroup(c)
		if errors.Is(err, runtimes.ErrGone) {
			continue
		}
		if err != nil {
			return Binding{}, fmt.Errorf("%w: %w", ErrAway, err)
		}
		if reason == "" {
			reason = missing
		}
		if one.Path != "" {
			places = append(places, one)
		}
	}
	return bindObjects(places, reason), nil
}

// containerCgroup returns the present cgroup of a container, or the path of the future one and the
// reason why there is none.
func (h *Host) containerCgroup(c runtimes.Container) (o Object, missing string, err error) {
	name := c.ID[:minID]
	if len(c.Names) > 0 {
		name = c.Names[0]
	}
	place, err := c.Place(h.deadline())
	if err != nil {
		return o, "", err
	}
	if place.PID == 0 {
		bound, err := bindCgroup(filepath.Join(h.CgroupRoot, place.Future)) // created, before its first process
		return Object{bound.Key, bound.Path}, "container " + name + " does not run", err
	}
	group, err := cgroup.Of(place.PID)
	if err != nil {
		return o, "container " + name + " does not run", nil //nolint:nilerr // it ended meanwhile
	}
	// The process may be in a cgroup below that of the container.
	for at := group.Path; at != "/" && at != "."; at = filepath.Dir(at) {
		if strings.Contains(filepath.Base(at), c.ID) {
			bound, err := bindCgroup(at)
			return Object{bound.Key, bound.Path}, bound.Missing, err
		}
	}
	return o, "container " + name + " has no cgroup of its own: its processes are in " + cgroup.Below(group.Path), nil
}
