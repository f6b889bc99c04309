export JAVA_HOME=/opt/java HADOOP_CONF_DIR=/etc/hadoop
