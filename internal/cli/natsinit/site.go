package natsinit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// maxFile bounds each file that is read, in bytes.
const maxFile = 1 << 20

// Options select what a run adds.
type Options struct {
	Folder     string
	Servers    []string // NAME or NAME=HOST; none: those of the folder
	Cluster    string
	Pools      []string
	Schedulers []string // pools with a scheduler without rows, in place of a placer and agents
	Remove     []string // pools that the cluster no longer has
	Publish    []string // POOL/SUBJECT: subjects to which the pool's workflows publish
	Agents     []string // POOL/NODE: nodes with a key. The service for agents verifies the nodes of the other pools.
	LegacyDEAs []string // nodes of the classic protocol
	Revoke     []string // users whose key the servers refuse from their next reload on, as prod.operator
	CAFile     string   // certificate of another authority, with CertFolder
	CertFolder string   // has NAME.crt and NAME.key of each server
	Force      bool     // replace all keys and certificates
	Now        time.Time
}

// layout is the content of site.json.
type layout struct {
	Servers  []host             `json:"servers"`
	Clusters []natsconf.Cluster `json:"clusters"`
}

type host struct {
	Name string `json:"name"`
	Host string `json:"host,omitempty"` // empty: the name
}

const siteFile = "site.json"

// load reads site.json. The result is empty if the folder lacks it.
func load(folder string) (layout, error) {
	var l layout
	path := filepath.Join(folder, siteFile)
	data, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = strictjson.Decode(data, &l)
	}
	if err != nil {
		return l, fmt.Errorf("read %s: %w; restore it, or write a new folder with --dir", path, err)
	}
	return l, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s: want a regular file of at most %d bytes", path, maxFile)
	}
	return os.ReadFile(path)
}

func (l layout) encode() ([]byte, error) {
	data, err := json.MarshalIndent(l, "", "  ")
	return append(data, '\n'), err
}

// add merges what the options name into the layout.
func (l *layout) add(o Options) error {
	for _, text := range o.Servers {
		name, address, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(l.Servers, func(h host) bool { return h.Name == name })
		if i < 0 {
			l.Servers = append(l.Servers, host{name, address})
		} else if strings.Contains(text, "=") {
			l.Servers[i].Host = address
		}
	}
	if len(l.Servers) == 0 {
		return errors.New("the folder has no servers yet: name them, for example --servers n1,n2,n3")
	}
	if o.Cluster == "" && (len(o.Pools) > 0 || len(o.Remove) > 0 || len(o.Schedulers) > 0 || len(o.Publish) > 0 || len(o.Agents) > 0 || len(o.LegacyDEAs) > 0 || len(l.Clusters) == 0) {
		return errors.New("the cluster is missing: name it with --cluster")
	}
	if o.Cluster == "" {
		return nil
	}
	c := l.cluster(o.Cluster)
	for _, pool := range o.Pools {
		c.add(pool)
	}
	for _, pool := range o.Schedulers {
		c.add(pool).Scheduler = true
	}
	for _, text := range o.Publish {
		pool, subject, ok := strings.Cut(text, "/")
		if !ok {
			return fmt.Errorf("--publish %.200q: want POOL/SUBJECT, for example web/repairs.web", text)
		}
		p := c.add(pool)
		if !slices.Contains(p.Publish, subject) {
			p.Publish = append(p.Publish, subject)
			slices.Sort(p.Publish)
		}
	}
	for _, text := range o.Agents {
		pool, node, ok := strings.Cut(text, "/")
		if !ok {
			return fmt.Errorf("--agent %.200q: want POOL/NODE, for example web/i-01", text)
		}
		p := c.add(pool)
		if !slices.Contains(p.Nodes, node) {
			p.Nodes = append(p.Nodes, node)
			slices.Sort(p.Nodes)
		}
	}
	for _, node := range o.LegacyDEAs {
		if !slices.Contains(c.LegacyDEAs, node) {
			c.LegacyDEAs = append(c.LegacyDEAs, node)
			slices.Sort(c.LegacyDEAs)
		}
	}
	for _, pool := range o.Remove {
		left := slices.DeleteFunc(slices.Clone(c.Pools), func(p natsconf.Pool) bool { return p.Name == pool })
		if len(left) == len(c.Pools) {
			return fmt.Errorf("--remove-pool %.80q: cluster %s has no such pool", pool, o.Cluster)
		}
		c.Pools = left
	}
	if len(c.Pools) == 0 {
		return fmt.Errorf("cluster %s has no pools yet: name them, for example --pool web,batch", o.Cluster)
	}
	return nil
}

// cluster returns the cluster of that name, and adds it if it is missing.
func (l *layout) cluster(name string) *cluster {
	i := slices.IndexFunc(l.Clusters, func(c natsconf.Cluster) bool { return c.Name == name })
	if i < 0 {
		l.Clusters = append(l.Clusters, natsconf.Cluster{Name: name})
		i = len(l.Clusters) - 1
	}
	return (*cluster)(&l.Clusters[i])
}

// cluster has a method that adds a pool.
type cluster natsconf.Cluster

// add returns the pool of that name, and adds it if it is missing.
func (c *cluster) add(name string) *natsconf.Pool {
	i := slices.IndexFunc(c.Pools, func(p natsconf.Pool) bool { return p.Name == name })
	if i < 0 {
		c.Pools = append(c.Pools, natsconf.Pool{Name: name})
		slices.SortFunc(c.Pools, func(a, b natsconf.Pool) int { return cmp.Compare(a.Name, b.Name) })
		i = slices.IndexFunc(c.Pools, func(p natsconf.Pool) bool { return p.Name == name })
	}
	return &c.Pools[i]
}

// verified reports whether the site has a pool whose nodes have no keys, so that a service verifies them.
func (l layout) verified() bool {
	return slices.ContainsFunc(l.Clusters, func(c natsconf.Cluster) bool {
		return slices.ContainsFunc(c.Pools, func(p natsconf.Pool) bool { return len(p.Nodes) == 0 && !p.Scheduler })
	})
}
