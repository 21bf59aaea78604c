package selector

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"weir/policy"
)

// unit is a systemd unit: its cgroup, wherever systemd puts it.
var unit = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "unit", Doc: "A systemd unit, such as backup.service: its cgroup, wherever systemd puts it.", Sample: "",
		Parse: func(text string) (string, string, error) {
			if strings.ContainsAny(text, "/ ") || !strings.Contains(text, ".") {
				return "", "", fmt.Errorf("%q is no systemd unit: write its whole name, as in backup.service", text)
			}
			return text, "unit " + text, nil
		},
	},
	Bind: func(h *Host, text string) (Binding, error) {
		folder, err := h.unitFolder(text)
		if err != nil || folder == "" {
			return Binding{Missing: notRunning(text)}, err
		}
		return bindCgroup(folder)
	},
	Watch: watchUnits,
	Near: func(h *Host, text string) string {
		if _, err := h.unitFolder(text); err != nil {
			return ""
		}
		names := make([]string, 0, len(h.units))
		for name := range h.units {
			names = append(names, name)
		}
		return nearName(text, names)
	},
	Inside: func(h *Host, text string) (Inside, string, error) {
		folder, err := h.unitFolder(text)
		if err != nil || folder == "" {
			return Inside{}, notRunning(text), err
		}
		return insideCgroup(folder, "unit")
	},
}

func notRunning(unit string) string { return "unit " + unit + " has no cgroup: it does not run" }

// unitFolder looks for the unit's cgroup in the slices, where systemd puts it: any folder of that name, the first in order.
func (h *Host) unitFolder(unit string) (string, error) {
	if h.units == nil {
		h.units = map[string]string{}
		err := filepath.WalkDir(h.CgroupRoot, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return nil // a cgroup that went away while it was looked at
				}
				return err
			}
			if _, twice := h.units[entry.Name()]; entry.IsDir() && !twice {
				h.units[entry.Name()] = path
			}
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("look for unit %s: %w", unit, err)
		}
	}
	return h.units[unit], nil
}

// watchUnits lists all slices and the managers of users, where systemd makes units' cgroups.
func watchUnits(h *Host, _ []string) []string {
	folders := []string{h.CgroupRoot}
	_ = filepath.WalkDir(h.CgroupRoot, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == h.CgroupRoot {
			return nil // what goes away while it is looked at
		}
		if !strings.HasSuffix(entry.Name(), ".slice") && !strings.HasPrefix(entry.Name(), "user@") {
			return filepath.SkipDir
		}
		folders = append(folders, path)
		return nil
	})
	return folders
}
