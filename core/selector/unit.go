// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/core/policy"
	"weir/internal/systemd"
)

// unit matches the cgroup of a systemd unit, wherever systemd puts it.
var unit = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "unit", Doc: "Sockets of a systemd unit, such as backup.service. Weir queries systemd for its cgroup.", Sample: "",
		Parse: func(text string) (string, string, error) {
			if strings.ContainsAny(text, "/ ") || !strings.Contains(text, ".") {
				return "", "", fmt.Errorf("%q is not a systemd unit: write its whole name, as in backup.service", text)
			}
			return text, "unit " + text, nil
		},
	},
	Bind: func(h *Host, text string) (Binding, error) {
		folder, missing, err := h.unitFolder(text)
		if err != nil || missing != "" {
			return Binding{Missing: missing}, err
		}
		return bindCgroup(folder)
	},
	Watch: watchUnits,
	Near: func(h *Host, text string) string {
		if h.walk() != nil {
			return ""
		}
		names := make([]string, 0, len(h.units))
		for name := range h.units {
			names = append(names, name)
		}
		return nearName(text, names)
	},
	Inside: func(h *Host, text string) (Inside, string, error) {
		folder, missing, err := h.unitFolder(text)
		if err != nil || missing != "" {
			return Inside{}, missing, err
		}
		return insideCgroup(folder, "unit")
	},
}

// unitFolder returns the cgroup of a unit from the service manager. Without one it searches the
// root and slices, as systemd places units. It ignores folders inside a unit, which may be
// delegated to a user or container, and a name found twice.
func (h *Host) unitFolder(unit string) (folder, missing string, err error) {
	idle := "unit " + unit + " has no cgroup: it does not run"
	group, answered, err := h.ask(unit)
	if err != nil {
		return "", "", err // keep the active binding: any user may create such folders
	}
	if answered {
		if group == "" {
			return "", idle, nil
		}
		return filepath.Join(h.CgroupRoot, group), "", nil
	}
	if err := h.walk(); err != nil {
		return "", "", fmt.Errorf("look for unit %s: %w", unit, err)
	}
	switch found := h.units[unit]; len(found) {
	case 0:
		return "", idle, nil
	case 1:
		return found[0], "", nil
	default:
		return "", fmt.Sprintf("unit %s is in several slices, %s: select one by its path, with the key cgroup", unit, strings.Join(found, " and ")), nil
	}
}

// ask queries the manager once per unit, and not again if it does not answer.
func (h *Host) ask(unit string) (group string, answered bool, err error) {
	if h.Manager == nil || h.silent || !systemd.Kind(unit) {
		return "", false, nil
	}
	if group, known := h.answers[unit]; known {
		return group, true, nil
	}
	group, err = h.Manager.ControlGroup(unit)
	if errors.Is(err, systemd.ErrNobody) {
		h.silent = true
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if h.answers == nil {
		h.answers = map[string]string{}
	}
	h.answers[unit] = group
	return group, true, nil
}

// walk finds the units of all slices, once.
func (h *Host) walk() error {
	if h.units != nil {
		return nil
	}
	h.units = map[string][]string{}
	return h.findUnits(h.CgroupRoot)
}

// findUnits goes down the slices below a folder.
func (h *Host) findUnits(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		h.units[entry.Name()] = append(h.units[entry.Name()], path)
		if strings.HasSuffix(entry.Name(), ".slice") {
			if err := h.findUnits(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchUnits lists all slices, in which systemd creates the cgroups of units.
func watchUnits(h *Host, _ []string) []string {
	folders := []string{h.CgroupRoot}
	_ = filepath.WalkDir(h.CgroupRoot, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == h.CgroupRoot {
			return nil // removed meanwhile
		}
		if !strings.HasSuffix(entry.Name(), ".slice") {
			return filepath.SkipDir
		}
		folders = append(folders, path)
		return nil
	})
	return folders
}
