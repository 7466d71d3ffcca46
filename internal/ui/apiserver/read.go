package apiserver

func (c *call) fleet() (any, error) { return c.Fleet.Rows(c.request.Context()) }

func (c *call) status() (any, error) {
	s := c.pool.Now.Status(c.request.Context())
	return s, s.Unknown
}

func (c *call) nodes() (any, error) { return c.pool.Now.Nodes(c.request.Context()) }

func (c *call) apps() (any, error) { return c.pool.Now.Apps(c.request.Context()) }

func (c *call) signals() (any, error) { return c.pool.Now.Signals(c.request.Context()) }
