package workqueue

func (o *Options[K]) SetShards(v int) *Options[K] {
	o.shards = v
	return o
}
