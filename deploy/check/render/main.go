// Command render prints the objects of a chart as JSON, one a line. The values, as JSON, are its input.
//
//	echo '{}' | render FOLDER RELEASE NAMESPACE
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/weirkeeper/weirkeeper/deploy/check"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("want FOLDER RELEASE NAMESPACE")
	}
	values := map[string]any{}
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	texts, err := check.Render(args[0], args[1], args[2], values)
	if err != nil {
		return err
	}
	for _, part := range strings.Split("\n"+strings.Join(texts, "\n---\n"), "\n---\n") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		object, err := yaml.YAMLToJSON([]byte(part))
		if err != nil {
			return err
		}
		fmt.Println(string(object))
	}
	return nil
}
