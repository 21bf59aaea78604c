// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Release returns the running kernel's version, as uname -r prints it.
func Release() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("read the kernel's version: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// Config returns the options that the running kernel was built with ("CONFIG_NET_SCH_NETEM": "m"),
// from the places that kernels and distributions use. It needs no privilege, and so works if probes
// cannot run.
func Config() (map[string]string, error) {
	release, err := Release()
	if err != nil {
		return nil, err
	}
	for _, path := range []string{"/proc/config.gz", "/boot/config-" + release, "/usr/lib/modules/" + release + "/config"} {
		file, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the kernel's configuration: %w", err)
		}
		defer func() { _ = file.Close() }()
		var text io.Reader = file
		if strings.HasSuffix(path, ".gz") {
			if text, err = gzip.NewReader(file); err != nil {
				return nil, fmt.Errorf("read the kernel's configuration: %w", err)
			}
		}
		return parseConfig(text)
	}
	return nil, fmt.Errorf("read the kernel's configuration: neither in /proc nor in /boot: %w", os.ErrNotExist)
}

func parseConfig(text io.Reader) (map[string]string, error) {
	config := map[string]string{}
	scanner := bufio.NewScanner(text)
	for scanner.Scan() {
		name, value, found := strings.Cut(scanner.Text(), "=")
		if found && strings.HasPrefix(name, "CONFIG_") {
			config[name] = strings.Trim(value, `"`)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read the kernel's configuration: %w", err)
	}
	return config, nil
}
