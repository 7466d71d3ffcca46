resource "aws_launch_template" "pool" {
  name          = local.name
  image_id      = var.image_id
  instance_type = var.instance_type
  user_data     = base64encode(var.user_data)

  vpc_security_group_ids = var.security_group_ids

  iam_instance_profile {
    name = aws_iam_instance_profile.node.name
  }

  # The agent reads cluster, pool, group and id from the metadata.
  metadata_options {
    http_endpoint          = "enabled"
    http_tokens            = "required"
    instance_metadata_tags = "enabled"
  }

  tag_specifications {
    resource_type = "instance"
    tags          = { "weir:pool" = local.tag }
  }

  tag_specifications {
    resource_type = "network-interface"
    tags          = { "weir:pool" = local.tag }
  }
}

resource "aws_autoscaling_group" "pool" {
  name                  = "${var.cluster}-${var.pool}"
  min_size              = var.min_size
  max_size              = var.max_size
  vpc_zone_identifier   = var.subnet_ids
  protect_from_scale_in = true
  capacity_rebalance    = false

  launch_template {
    id      = aws_launch_template.pool.id
    version = "$Latest"
  }

  tag {
    key                 = "weir:pool"
    value               = local.tag
    propagate_at_launch = true
  }

  # Weirkeeper sets the desired capacity, suspends a process and tags the group.
  lifecycle {
    ignore_changes = [desired_capacity, suspended_processes, tag]
  }
}
