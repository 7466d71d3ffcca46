resource "aws_sqs_queue" "notices" {
  name = "${local.name}-notices"
}

# Only the rule may send.
resource "aws_sqs_queue_policy" "notices" {
  queue_url = aws_sqs_queue.notices.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.notices.arn
      Condition = { ArnEquals = { "aws:SourceArn" = aws_cloudwatch_event_rule.notices.arn } }
    }]
  })
}

resource "aws_cloudwatch_event_rule" "notices" {
  name = "${local.name}-notices"
  event_pattern = jsonencode({
    source = ["aws.ec2", "aws.autoscaling", "aws.health"]
    "detail-type" = [
      "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation", "EC2 Instance State-change Notification",
      "EC2 Instance Launch Successful", "EC2 Instance Launch Unsuccessful", "EC2 Instance Terminate Successful",
      "EC2 Instance Terminate Unsuccessful", "AWS Health Event",
    ]
  })
}

resource "aws_cloudwatch_event_target" "notices" {
  rule = aws_cloudwatch_event_rule.notices.name
  arn  = aws_sqs_queue.notices.arn
}
